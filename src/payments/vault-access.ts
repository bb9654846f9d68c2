import http from 'node:http';
import https from 'node:https';
import type { RunRef } from '../domain/ids.ts';
import { capOf } from '../domain/spend-cap.ts';
import {
  LookupFailed,
  type FrozenSend,
  type PaymentGateway,
  type Refusal,
  type SendReply,
} from './gateway.ts';
import { createStripeGateway, MAX_SOCKETS, STRIPE_API_VERSION } from './stripe-gateway.ts';
import {
  createVaultClient,
  VaultRefused,
  VaultUnavailable,
  type RunCap,
  type VaultClient,
} from './vault-client.ts';

export interface VaultAccessOptions {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /** shared with the vault, VAULT_RUN_TOKEN */
  readonly runToken: string;
  /** time-out of one HTTP request to Stripe through the vault, in milliseconds */
  readonly timeoutMs: number;
  /** the run's key, which the vault derives from the same token */
  readonly runKey: (run: RunRef) => string;
  /** what our own reading of the plan expects per currency, in minor units; compared when a run is opened */
  readonly expectedOf?: ((run: RunRef) => Promise<ReadonlyMap<string, number>>) | undefined;
}

/** What a Stripe client of this run is given. */
interface RunCredentials {
  readonly apiKey: string;
  readonly apiBase: string;
}

/** Stripe behind a vault: each run has a key of its own, and what it may spend is the vault's to say. */
export interface VaultAccess {
  /** Whom the vault's own Stripe key bills. Throws {@link VaultUnavailable} or {@link VaultRefused}. */
  account(): Promise<{ readonly account: string; readonly liveMode: boolean }>;
  /**
   * Opens the run's key, once per process, and compares its caps with our own reading of the plan. Twice, or by two at
   * once: one call. Throws as above.
   */
  openRun(run: RunRef): Promise<void>;
  /** Closes the key of a run that is over. What comes late opens it again. */
  closeRun(run: RunRef): Promise<void>;
  /** The run's key for another client, such as the audit's; opened first. */
  credentialsOf(run: RunRef): Promise<RunCredentials>;
  /** The gateway with the run's key, which it opens at its first call. */
  gatewayOf(run: RunRef): PaymentGateway;
  /** For what belongs to no run: knows the account and the API version, and refuses all else. */
  gatewayOutsideRuns(): PaymentGateway;
  /** Cuts its sockets. */
  close(): void;
}

/** A process bills a handful of runs at a time; a gateway is an object, and the sockets are shared. */
const MAX_RUNS = 32;

/** Access to Stripe through a vault. Sends nothing until it is asked to. */
export function createVaultAccess(options: VaultAccessOptions): VaultAccess {
  const client = createVaultClient(options);
  const openings = new Openings(client, options);
  const Agent = options.proxyUrl.startsWith('https:') ? https.Agent : http.Agent;
  const agent = new Agent({ keepAlive: true, maxSockets: MAX_SOCKETS });
  const gateways = new Map<string, PaymentGateway>();
  return {
    account: () => client.account(),
    openRun: (run) => openings.of(run),
    async closeRun(run) {
      openings.forget(run);
      await client.closeRun(run);
    },
    async credentialsOf(run) {
      await openings.of(run);
      return { apiKey: options.runKey(run), apiBase: options.proxyUrl };
    },
    gatewayOf(run) {
      const id = nameOf(run);
      const known = gateways.get(id);
      if (known !== undefined) return known;
      const inner = createStripeGateway({
        apiKey: options.runKey(run),
        apiBase: options.proxyUrl,
        timeoutMs: options.timeoutMs,
        agent,
      });
      const gateway = openedGateway({ run, inner, client, openings });
      const [oldest] = gateways.keys();
      if (gateways.size >= MAX_RUNS && oldest !== undefined) gateways.delete(oldest);
      gateways.set(id, gateway);
      return gateway;
    },
    gatewayOutsideRuns: () => gatewayWithoutKey(client),
    close: () => agent.destroy(),
  };
}

function nameOf({ namespace, period }: RunRef): string {
  return `${namespace}/${period}`;
}

/** Which runs' keys this process has had opened. */
class Openings {
  readonly #client: VaultClient;
  readonly #options: VaultAccessOptions;
  readonly #open = new Map<string, Promise<void>>();

  constructor(client: VaultClient, options: VaultAccessOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** Opens the run's key unless it is; one that failed is tried again by the next call. */
  of(run: RunRef): Promise<void> {
    const id = nameOf(run);
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    const opening = this.#openNow(run);
    this.#open.set(id, opening);
    opening.catch(() => this.forget(run, opening));
    return opening;
  }

  /** The next call opens anew; with an opening named, only when it is still the one that counts. */
  forget(run: RunRef, opening?: Promise<void>): void {
    const id = nameOf(run);
    if (opening === undefined || this.#open.get(id) === opening) this.#open.delete(id);
  }

  async #openNow(run: RunRef): Promise<void> {
    const caps = await this.#client.openRun(run);
    const expected = await this.#options.expectedOf?.(run);
    const difference = expected === undefined ? null : differenceOf(caps, expected);
    if (difference === null) return;
    throw new VaultRefused(
      `the vault's caps of ${nameOf(run)} are not those of the plan: ${difference}. Do the vault and the workers have the same DATABASE_URL?`,
      { status: 409, code: 'vault_cap_differs' },
    );
  }
}

/** How the vault's reading of a plan differs from ours, or null. A cap may have been raised, and is never lower. */
function differenceOf(
  caps: readonly RunCap[],
  expected: ReadonlyMap<string, number>,
): string | null {
  for (const [currency, expectedMinor] of expected) {
    if (expectedMinor === 0) continue;
    const cap = caps.find((one) => one.currency === currency);
    if (cap === undefined) return `none in ${currency}, where ${expectedMinor} are expected`;
    if (cap.expectedMinor !== expectedMinor)
      return `${cap.expectedMinor} ${currency} expected there, ${expectedMinor} here`;
    if (cap.capMinor < capOf(expectedMinor))
      return `${cap.capMinor} ${currency}, less than ${capOf(expectedMinor)}`;
  }
  const foreign = caps.find((cap) => !expected.has(cap.currency));
  return foreign === undefined ? null : `one in ${foreign.currency}, where nothing is expected`;
}

interface RunGateway {
  readonly run: RunRef;
  readonly inner: PaymentGateway;
  readonly client: VaultClient;
  readonly openings: Openings;
}

/** The run's gateway: its key is opened before each call, which after the first costs nothing. */
function openedGateway(from: RunGateway): PaymentGateway {
  const { inner, client } = from;
  return {
    apiVersion: inner.apiVersion,
    account: async () => ({ id: (await client.account()).account }),
    createPaymentIntent: (frozen) =>
      sendOpened(from, frozen, () => inner.createPaymentIntent(frozen)),
    confirmPaymentIntent: (id, frozen) =>
      sendOpened(from, frozen, () => inner.confirmPaymentIntent(id, frozen)),
    retrievePaymentIntent: (id) => readOpened(from, () => inner.retrievePaymentIntent(id)),
    listPaymentIntents: (query) => readOpened(from, () => inner.listPaymentIntents(query)),
    listChargesOf: (id) => readOpened(from, () => inner.listChargesOf(id)),
    retrieveCharge: (id) => readOpened(from, () => inner.retrieveCharge(id)),
    listEvents: (query) => readOpened(from, () => inner.listEvents(query)),
  };
}

async function sendOpened(
  { run, openings }: RunGateway,
  frozen: FrozenSend,
  send: () => Promise<SendReply>,
): Promise<SendReply> {
  const startedAt = performance.now();
  const opening = openings.of(run);
  try {
    await opening;
  } catch (error) {
    return notSent(frozen, toRefusal(error), performance.now() - startedAt);
  }
  const reply = await send();
  // Closed, revoked or rotated behind our back: the next attempt asks the vault anew.
  if (reply.kind === 'refused' && isAboutKey(reply.refusal)) openings.forget(run, opening);
  return reply;
}

async function readOpened<T>({ run, openings }: RunGateway, read: () => Promise<T>): Promise<T> {
  const opening = openings.of(run);
  try {
    await opening;
  } catch (error) {
    const { status, message } = toRefusal(error);
    throw new LookupFailed(`nothing was asked: ${message}`, { status, cause: error });
  }
  try {
    return await read();
  } catch (error) {
    if (error instanceof LookupFailed && error.status === 401) openings.forget(run, opening);
    throw error;
  }
}

function isAboutKey({ type, code }: Refusal): boolean {
  return type === 'vault_error' && code?.startsWith('vault_key_') === true;
}

/** What the admin API said, as the proxy would have: nothing has reached Stripe. */
function toRefusal(error: unknown): Refusal {
  const base = {
    type: 'vault_error',
    declineCode: null,
    adviceCode: null,
    shouldRetry: null,
    retryAfterMs: null,
    paymentIntent: null,
  };
  if (error instanceof VaultRefused)
    return { ...base, status: error.status, code: error.code, message: error.message };
  if (error instanceof VaultUnavailable)
    return { ...base, status: 503, code: 'vault_unavailable', message: error.message };
  throw error;
}

function notSent(frozen: FrozenSend, refusal: Refusal, tookMs: number): SendReply {
  const answer = {
    attemptId: frozen.attemptId,
    httpStatus: refusal.status,
    error: refusal.code,
    stripeRequestId: null,
    replayed: false,
    durationMs: Math.round(tookMs),
  };
  return { kind: 'refused', refusal, answer };
}

/** Nothing may be sent or read under no run's key; a call here is a mistake of ours. */
function gatewayWithoutKey(client: VaultClient): PaymentGateway {
  const refuse = (): Promise<never> =>
    Promise.reject(new Error('with a vault every call to Stripe needs the key of its run'));
  return {
    apiVersion: STRIPE_API_VERSION,
    account: async () => ({ id: (await client.account()).account }),
    createPaymentIntent: refuse,
    confirmPaymentIntent: refuse,
    retrievePaymentIntent: refuse,
    listPaymentIntents: refuse,
    listChargesOf: refuse,
    retrieveCharge: refuse,
    listEvents: refuse,
  };
}
