import { randomUUID } from 'node:crypto';
import { Secret } from '../../src/secret.ts';
import { startVault, type RunningVault, type VaultOptions } from '../../src/vault.ts';
import { TEST_KEY } from './engine.ts';
import { keepingLog, type LogLine } from './webhooks.ts';

export const ADMIN_TOKEN = `vat_${'a'.repeat(64)}`;
export const RUN_TOKEN = `vrt_${'b'.repeat(64)}`;

interface JsonAnswer {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- whatever JSON the vault answers; the assertions say what it has to be
  readonly body: any;
  readonly text: string;
}

/** A whole vault, as an operator and as clients reach it. */
export interface TestVault {
  readonly vault: RunningVault;
  readonly log: readonly LogLine[];
  /** The admin API; null sends no token. */
  admin(
    method: string,
    path: string,
    options?: { readonly body?: unknown; readonly token?: string | null },
  ): Promise<JsonAnswer>;
  /** Makes a key, which has to succeed. */
  makeKey(parts?: object): Promise<{ readonly id: string; readonly key: string }>;
  /** A POST through the proxy, as curl sends one. */
  post(
    path: string,
    form: Readonly<Record<string, string>>,
    options: { readonly key: string; readonly idempotencyKey?: string | null },
  ): Promise<JsonAnswer>;
}

export const ORDER = {
  vendor: 'stripe',
  max_amount: 10_000,
  currency: 'usd',
  allowed_endpoints: [
    'POST /v1/payment_intents',
    'POST /v1/payment_intents/:id/confirm',
    'GET /v1/payment_intents/:id',
  ],
} as const;

/** What a create of `amount` cents sends. */
export function createForm(amount: number, customer = 'cus_1'): Record<string, string> {
  return {
    amount: String(amount),
    currency: 'usd',
    customer,
    payment_method: 'pm_card_visa',
  };
}

/** Starts a vault on this database, in front of this Stripe. */
export async function startTestVault(from: {
  readonly databaseUrl: string;
  readonly stripeUrl: string;
  readonly options?: Partial<VaultOptions>;
}): Promise<TestVault> {
  const { log, lines } = keepingLog();
  const vault = await startVault({
    databaseUrl: new Secret(from.databaseUrl),
    stripe: { apiKey: new Secret(TEST_KEY), apiBase: from.stripeUrl, timeoutMs: 5_000 },
    mode: 'test',
    absenceQuietMs: 1_000,
    adminToken: new Secret(ADMIN_TOKEN),
    runToken: new Secret(RUN_TOKEN),
    alerts: { webhook: null, slackUrl: null },
    proxy: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    log,
    ...from.options,
  });
  const admin: TestVault['admin'] = async (method, path, options = {}) => {
    const { body, token = ADMIN_TOKEN } = options;
    return answerOf(
      await fetch(new URL(path, vault.adminUrl), {
        method,
        headers: {
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined
          ? {}
          : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      }),
    );
  };
  return {
    vault,
    log: lines,
    admin,
    async makeKey(parts = {}) {
      const { status, body, text } = await admin('POST', '/vault/keys', {
        body: { ...ORDER, ...parts },
      });
      if (status !== 201) throw new Error(`no key was made: ${status} ${text}`);
      return body;
    },
    async post(path, form, { key, idempotencyKey = randomUUID() }) {
      return answerOf(
        await fetch(new URL(path, vault.proxyUrl), {
          method: 'POST',
          headers: {
            authorization: `Bearer ${key}`,
            ...(idempotencyKey === null ? {} : { 'idempotency-key': idempotencyKey }),
          },
          body: new URLSearchParams(form),
        }),
      );
    },
  };
}

async function answerOf(response: Response): Promise<JsonAnswer> {
  const text = await response.text();
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // Not every answer is JSON: the metrics are none.
  }
  return { status: response.status, body, text };
}
