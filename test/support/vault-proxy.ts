import { randomUUID } from 'node:crypto';
import http from 'node:http';
import { openDatabase, type Db } from '../../src/db/database.ts';
import { findVaultKey, insertVaultKey } from '../../src/db/vault-keys.ts';
import { Secret } from '../../src/secret.ts';
import {
  startSimulator,
  type Simulator,
  type SimulatorOptions,
} from '../../src/simulator/index.ts';
import { hashKey, newKey } from '../../src/vault-key.ts';
import { RUN_ENDPOINTS } from '../../src/vault/endpoints.ts';
import type { VaultEvent } from '../../src/vault/events.ts';
import { Forwarder } from '../../src/vault/forward.ts';
import { startProxy, type ProxyLimits } from '../../src/vault/proxy-server.ts';
import { sweepReservations } from '../../src/vault/sweep.ts';
import { createUpstream } from '../../src/vault/upstream.ts';
import { migratedDatabase } from './engine.ts';

export const STRIPE_SECRET = 'sk_test_behind_the_vault_1';
const ACCOUNT = 'acct_behind_the_vault';

interface KeyWish {
  readonly capMinor?: number;
  readonly currency?: string;
  readonly expectedMinor?: number | null;
  readonly endpoints?: readonly string[];
  readonly liveMode?: boolean;
  readonly expiresAt?: Date;
  readonly period?: string;
}

interface HttpAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read into it
  readonly json: any;
}

interface Ask {
  readonly key: string;
  readonly path?: string;
  readonly method?: string;
  readonly form?: Record<string, string> | string | Buffer;
  readonly idempotencyKey?: string;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

export interface VaultProxy {
  readonly url: string;
  readonly port: number;
  readonly databaseUrl: string;
  readonly db: Db;
  readonly events: VaultEvent[];
  makeKey(wish?: KeyWish): Promise<{ readonly keyId: string; readonly key: string }>;
  ask(what: Ask): Promise<HttpAnswer>;
  /** Looks at Stripe for everything that is held. */
  sweep(): Promise<unknown>;
  /** The same proxy before another upstream. */
  before(upstreamUrl: string, timeoutMs?: number): Promise<VaultProxy>;
  close(drainMs?: number): Promise<void>;
}

/** A proxy on a real database, in front of `upstreamUrl`. Closes what it opened, the database pool included. */
export async function startVaultProxy(options: {
  readonly upstreamUrl: string;
  readonly databaseUrl?: string;
  readonly upstreamTimeoutMs?: number;
  readonly limits?: Partial<ProxyLimits>;
  readonly now?: () => number;
}): Promise<VaultProxy> {
  const databaseUrl = options.databaseUrl ?? (await migratedDatabase());
  const database = openDatabase({
    url: databaseUrl,
    applicationName: 'vault proxy test',
    poolSize: 10,
    onError: () => {},
  });
  const { db } = database;
  const events: VaultEvent[] = [];
  const secret = new Secret(STRIPE_SECRET);
  const timeoutMs = options.upstreamTimeoutMs ?? 10_000;
  const upstream = createUpstream({ base: options.upstreamUrl, secret, timeoutMs });
  const onEvent = (event: VaultEvent): void => void events.push(event);
  const forwarder = new Forwarder({
    db,
    findKey: (keyId) => findVaultKey(db, keyId),
    account: ACCOUNT,
    liveMode: false,
    upstream,
    secret,
    onEvent,
    ...(options.now === undefined ? {} : { now: options.now }),
  });
  const { limits } = options;
  const proxy = await startProxy({
    host: '127.0.0.1',
    port: 0,
    forwarder,
    onEvent,
    ...(limits === undefined ? {} : { limits }),
  });
  const agent = new http.Agent({ keepAlive: true });
  const ask = (what: Ask): Promise<HttpAnswer> => askOver({ agent, port: proxy.port }, what);
  return {
    url: proxy.url,
    port: proxy.port,
    databaseUrl,
    db,
    events,
    makeKey: (wish = {}) => makeKey(db, wish),
    ask,
    sweep: () =>
      sweepReservations(
        { db, upstream, account: ACCOUNT, liveMode: false, quietMs: 60_000, onEvent },
        { force: true },
      ),
    before: (upstreamUrl, upstreamTimeoutMs = timeoutMs) =>
      startVaultProxy({ ...options, databaseUrl, upstreamUrl, upstreamTimeoutMs }),
    close: async (drainMs = 5_000) => {
      await proxy.close(drainMs);
      upstream.close();
      await database.close();
    },
  };
}

/** The form of a confirmed payment, but for its amount. */
const PAYMENT = {
  currency: 'usd',
  customer: 'cus_payer',
  payment_method: 'pm_card_visa',
  confirm: 'true',
  off_session: 'true',
  'automatic_payment_methods[enabled]': 'true',
  'automatic_payment_methods[allow_redirects]': 'never',
} as const;

/** More of a request, and the card that pays. */
type More = Partial<Ask> & { readonly card?: string };

/** What one customer's client asks for; each call under a key of its own unless told otherwise. */
export interface Payer {
  form(amount: number, card?: string): Record<string, string>;
  /** create and confirm in one */
  pay(key: string, amount: number, more?: More): Promise<HttpAnswer>;
  create(key: string, amount: number, more?: More): Promise<HttpAnswer>;
  confirm(key: string, id: string, more?: More): Promise<HttpAnswer>;
}

export function payerOf(vault: Pick<VaultProxy, 'ask'>, customer: string): Payer {
  const form = (amount: number, card = 'pm_card_visa'): Record<string, string> => ({
    ...PAYMENT,
    customer,
    payment_method: card,
    amount: String(amount),
  });
  const ask = (what: Ask, { card: _card, ...more }: More) =>
    vault.ask({ idempotencyKey: randomUUID(), ...what, ...more });
  return {
    form,
    pay: (key, amount, more = {}) => ask({ key, form: form(amount, more.card) }, more),
    create: (key, amount, more = {}) => {
      const {
        confirm: _confirm,
        off_session: _offSession,
        ...unconfirmed
      } = form(amount, more.card);
      return ask({ key, form: unconfirmed }, more);
    },
    confirm: (key, id, more = {}) => {
      const paying = { payment_method: more.card ?? 'pm_card_visa', off_session: 'true' };
      return ask({ key, path: `/v1/payment_intents/${id}/confirm`, form: paying }, more);
    },
  };
}

/** A simulator without rate limits. */
export function startStripe(options: SimulatorOptions = {}): Promise<Simulator> {
  return startSimulator({ endpointRate: 0, accountRate: 0, ...options });
}

async function makeKey(db: Db, wish: KeyWish): Promise<{ keyId: string; key: string }> {
  const liveMode = wish.liveMode ?? false;
  const made = newKey(liveMode ? 'live' : 'test');
  await insertVaultKey(db, {
    keyId: made.keyId,
    secretHash: hashKey(made.key),
    account: ACCOUNT,
    liveMode,
    capBasis: 'total',
    namespace: null,
    period: wish.period ?? null,
    allowedEndpoints: wish.endpoints ?? [...RUN_ENDPOINTS, 'POST /v1/refunds'],
    expiresAt: wish.expiresAt ?? new Date(Date.now() + 3_600_000),
    caps: [
      {
        currency: wish.currency ?? 'usd',
        capMinor: wish.capMinor ?? 100_000,
        expectedMinor: wish.expectedMinor ?? null,
      },
    ],
    actor: 'test',
  });
  return made;
}

function askOver(via: { agent: http.Agent; port: number }, what: Ask): Promise<HttpAnswer> {
  const { form } = what;
  const method = what.method ?? (form === undefined ? 'GET' : 'POST');
  const body =
    form === undefined || typeof form === 'string' || Buffer.isBuffer(form)
      ? Buffer.from(form ?? '')
      : Buffer.from(new URLSearchParams(form).toString());
  return new Promise((resolve, reject) => {
    const req = http.request({
      agent: via.agent,
      host: '127.0.0.1',
      port: via.port,
      method,
      path: what.path ?? '/v1/payment_intents',
      headers: {
        Authorization: `Bearer ${what.key}`,
        ...(form === undefined ? {} : { 'Content-Type': 'application/x-www-form-urlencoded' }),
        ...(method === 'POST' ? { 'Content-Length': String(body.length) } : {}),
        ...(what.idempotencyKey === undefined ? {} : { 'Idempotency-Key': what.idempotencyKey }),
        ...what.headers,
      },
      ...(what.signal === undefined ? {} : { signal: what.signal }),
    });
    req.on('error', reject);
    req.on('response', (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('error', reject);
      res.on('end', () => {
        const whole = Buffer.concat(chunks);
        const { statusCode: status = 0, headers } = res;
        resolve({ status, headers, body: whole, json: parse(whole) });
      });
    });
    req.end(body);
  });
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
}
