import { randomUUID } from 'node:crypto';
import { Agent } from 'node:http';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import fc from 'fast-check';
import { sql } from 'kysely';
import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROLES } from '../../src/http/api/auth.ts';
import { Secret } from '../../src/secret.ts';
import { insertCustomers, runRef, TEST_KEY } from '../support/engine.ts';
import {
  codeOf,
  faultsOf,
  sendFuzzed,
  type FuzzAnswer,
  type SentHeaders,
} from '../support/fuzz-judge.ts';
import { requestsOf, type Credential, type FuzzRequest } from '../support/fuzz-requests.ts';
import { CURSORS, SchemaValues } from '../support/fuzz-values.ts';
import { operationsOf, readDocument, type Operation } from '../support/openapi.ts';
import { startOperatorApi, type OperatorApi } from '../support/operator-api.ts';
import { startQuietDevServer, startStack, type Stack } from '../support/stack.ts';
import { ADMIN_TOKEN, ORDER, RUN_TOKEN, startTestVault, type TestVault } from '../support/vault.ts';

/** API_FUZZ_REQUESTS and API_FUZZ_SEED: see docs/testing.md. */
const REQUESTS = Number(process.env['API_FUZZ_REQUESTS'] ?? 12);
const SEED = Number(process.env['API_FUZZ_SEED'] ?? 20261130);
const NO_LIMITS = { failuresPerMinute: 1e9, requestsPerMinute: 1e9 };
const BODIES: Readonly<Record<string, readonly object[]>> = {
  '/v1/vault/keys': [{ ...ORDER, reason: 'as a test' }],
};
/** Sent at once: answers of one request must not be another's. */
const AT_ONCE = 4;
const RUN = runRef('2031-01');

let env: TestWorkflowEnvironment;
let stack: Stack;
let vault: TestVault;
let api: OperatorApi;
/** the same database, with Temporal, Stripe and the vault away */
let alone: OperatorApi;
let document: OpenAPIV3_1.Document;
let operations: readonly Operation[];
let values: SchemaValues;
let secrets: readonly string[];
const agent = new Agent({ keepAlive: true, maxSockets: 2 * AT_ONCE });
const codes = new Map<string, number>();

beforeAll(async () => {
  env = await startQuietDevServer();
  stack = await startStack(env);
  vault = await startTestVault({
    databaseUrl: stack.databaseUrl,
    stripeUrl: stack.simulator.url,
  });
  const { account } = stack.deps;
  api = await startOperatorApi(stack.db, {
    account,
    limits: NO_LIMITS,
    temporal: async () => stack.client,
    gatewayOf: () => stack.deps.gateway,
    vaultAdmin: { url: vault.vault.adminUrl, token: new Secret(ADMIN_TOKEN) },
  });
  alone = await startOperatorApi(stack.db, { account, limits: NO_LIMITS });
  await insertCustomers(stack.db, [
    { id: 'c1' },
    { id: 'c2', paymentMethod: 'pm_card_visa_chargeDeclined' },
    { id: 'c3', amountMinor: 0 },
  ]);
  await stack.client.startRun(RUN, 'test');
  await stack.client.run(RUN).result();
  const { id } = await vault.makeKey();
  document = await readDocument(api.url);
  operations = operationsOf(document);
  values = new SchemaValues(document, {
    period: ['2031-01', '2031-01', '2031-02', '2030-W07'],
    namespace: ['base', 'base', 'overage'],
    customer: ['c1', 'c2', 'c3', 'nobody'],
    customers: [['c1'], ['c1', 'c2', 'nobody']],
    id: [id, '0'.repeat(16)],
    vault_key: [id],
    after: CURSORS,
    reason: ['as a test'],
    zone: ['UTC', 'Europe/Berlin'],
    max_amount: [1_000_000],
    currency: ['usd'],
    allowed_endpoints: [['GET /v1/payment_intents/:id']],
  });
  const tokens = await Promise.all(
    ROLES.flatMap((role) => [api, alone].map((one) => one.tokenOf({ name: role, role }))),
  );
  const password = new URL(stack.databaseUrl).password;
  secrets = [...tokens, ADMIN_TOKEN, RUN_TOKEN, TEST_KEY, stack.databaseUrl, password];
});
afterAll(async () => {
  agent.destroy();
  await alone.close();
  await api.close();
  await vault.vault.shutdown();
  await stack.close();
  await env.teardown();
});

async function authorizationOf(
  server: OperatorApi,
  { role: needed }: Operation,
  credential: Credential,
): Promise<string | null> {
  if (typeof credential === 'object') return credential.header;
  const at = ROLES.findIndex((one) => one === needed);
  const role = ROLES[credential === 'its role' ? at : Math.max(0, at - 1)] ?? 'viewer';
  return `Bearer ${await server.tokenOf({ name: role, role })}`;
}

/** Sends it and gives the answer, which must be as the document says and show nothing of the inside. */
async function ask(
  server: OperatorApi,
  operation: Operation,
  { sent, headers }: { readonly sent: FuzzRequest; readonly headers: SentHeaders },
): Promise<FuzzAnswer> {
  const answer = await sendFuzzed({ url: new URL(server.url), agent }, sent, headers);
  const keys = headers.keys.filter((key) => key.length > 20 && !/^k+$/.test(key));
  const faults = faultsOf({ document, secrets }, { operation }, { answer, sent, keys });
  expect({ faults, ...(faults.length === 0 ? {} : { answer }) }).toEqual({ faults: [] });
  const code = codeOf(answer) ?? String(answer.status);
  codes.set(code, (codes.get(code) ?? 0) + 1);
  return answer;
}

/** One request, and where it changes something its repeats. */
async function tryOut(server: OperatorApi, operation: Operation, sent: FuzzRequest) {
  const keys = sent.keys ?? (operation.method === 'get' ? [] : [randomUUID()]);
  const authorization = await authorizationOf(server, operation, sent.credential);
  const headers = { authorization, keys };
  if (operation.method === 'get') return void (await ask(server, operation, { sent, headers }));
  // A retrying client and the first request, at once.
  const both = await Promise.all([
    ask(server, operation, { sent, headers }),
    ask(server, operation, { sent, headers }),
  ]);
  const first = both.find((one) => codeOf(one) !== 'idempotency-key-in-use') ?? both[0];
  for (const answer of both)
    if (![409, 422, 503].includes(answer.status))
      expect(sameAs(answer, operation)).toEqual(sameAs(first, operation));
  const third = await ask(server, operation, { sent, headers });
  if (![409, 422, 503].includes(third.status))
    expect(sameAs(third, operation)).toEqual(sameAs(first, operation));
}

/** What a repeat has in common with the first answer: all, unless its body is kept back since it may hold a secret. */
function sameAs({ status, headers, text }: FuzzAnswer, { path }: Operation) {
  const isSecret = path === '/v1/vault/keys';
  return { status, location: headers.location, text: isSecret ? '' : text };
}

/** A counterexample and what it failed with. */
function told(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const diff: unknown = Reflect.get(Object(error.cause), 'actual');
  return `${error.message}\n${String(error.cause)}\n${JSON.stringify(diff)}`;
}

/** Operations take turns, so that each finds what the others have left. Each fails once at most. */
async function fuzz(server: OperatorApi, requests: number): Promise<void> {
  const failures = new Map<Operation, string>();
  for (let round = 0; round < requests / AT_ONCE; round += 1) {
    for (const operation of operations) {
      const one = requestsOf({ operation, values, bodies: BODIES[operation.path] ?? [] });
      // A read is sent once, and costs little.
      const size = operation.method === 'get' ? 3 * AT_ONCE : AT_ONCE;
      const batch = fc.array(one, { minLength: size, maxLength: size });
      const property = fc.asyncProperty(batch, async (sent) => {
        const tries = sent.map((request) => tryOut(server, operation, request));
        await Promise.allSettled(tries);
        await Promise.all(tries);
      });
      if (failures.has(operation)) continue;
      // Not made smaller: what others have left counts too, and is not there a second time.
      await fc
        .assert(property, { seed: SEED + round, numRuns: 1, endOnFailure: true })
        .catch((error: unknown) => failures.set(operation, told(error)));
    }
  }
  expect([...failures.values()]).toEqual([]);
}

describe('requests made of the OpenAPI document, right and wrong ones', () => {
  it('are never answered 500, as documented, alike when they are repeated, and without a word of the inside', async () => {
    await fuzz(api, REQUESTS);
    // Otherwise nothing came as far as it was meant to.
    for (const code of [
      '200',
      '201',
      '202',
      'parameter-invalid',
      'path-invalid',
      'body-unreadable',
    ])
      expect([code, codes.get(code) ?? 0]).toEqual([code, expect.toSatisfy((n) => n > 1)]);
  });

  it('are answered so too while Temporal, Stripe and the vault are away', async () => {
    await fuzz(alone, Math.ceil(REQUESTS / 3));
    for (const code of ['temporal-unavailable', 'vault-not-configured'])
      expect([code, codes.get(code) ?? 0]).toEqual([code, expect.toSatisfy((n) => n > 3)]);
  });

  it('leave the server ready, no key held, and nobody charged twice', async () => {
    const ready = await fetch(`${api.url}/readyz`);
    expect({ status: ready.status, body: await ready.json() }).toMatchObject({ status: 200 });
    const held = await sql<{ readonly key: string }>`SELECT idempotency_key AS key
      FROM idempotency_records WHERE state = 'IN_PROGRESS' AND lease_until > now()`.execute(
      stack.db,
    );
    expect(held.rows).toEqual([]);
    const twice = await sql`SELECT customer_id FROM charge_generations WHERE outcome = 'charged'
      GROUP BY namespace, period, customer_id HAVING count(*) > 1`.execute(stack.db);
    expect(twice.rows).toEqual([]);
  });
});
