import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { simulatorLedgerWitness, stripeListWitness } from '../../src/audit/index.ts';
import type { ProviderIntent, ProviderWitness } from '../../src/audit/witnesses.ts';
import { runRef } from '../support/engine.ts';

const QUERY = { run: runRef('2026-09'), account: null, livemode: null, plannedAt: new Date() };

let server: Server | undefined;

afterEach(async () => {
  if (server === undefined) return;
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
  server = undefined;
});

/** A provider that answers as the test says; gives its address. */
async function listen(
  answer: (req: IncomingMessage, res: ServerResponse) => void,
): Promise<string> {
  server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}`;
}

async function all(witness: ProviderWitness): Promise<ProviderIntent[]> {
  const intents: ProviderIntent[] = [];
  for await (const intent of witness.intents(QUERY)) intents.push(intent);
  return intents;
}

function intent(id: string, parts: Record<string, unknown> = {}) {
  return {
    id,
    amount: 700,
    amount_received: 700,
    currency: 'usd',
    status: 'succeeded',
    customer: 'cus_1',
    latest_charge: 'ch_1',
    metadata: {
      chargeonce_namespace: 'base',
      chargeonce_period: '2026-09',
      chargeonce_customer: 'ada',
      chargeonce_key: 'k',
    },
    ...parts,
  };
}

function send(res: ServerResponse, status: number, body: unknown): void {
  res.writeHead(status, { 'Content-Type': 'application/json' });
  res.end(JSON.stringify(body));
}

const FAST = { apiKey: 'sk_test_1', pace: 0 };

test('reads every page, passes the cursor and the key on, and leaves other periods out', async () => {
  const seen: string[] = [];
  const url = await listen((req, res) => {
    seen.push(`${req.url} ${req.headers.authorization}`);
    const first = !(req.url ?? '').includes('starting_after');
    const other = { chargeonce_namespace: 'base', chargeonce_period: '2026-10' };
    send(res, 200, {
      data: first
        ? [intent('pi_1'), intent('pi_2', { metadata: other })]
        : [intent('pi_3', { status: 'processing', latest_charge: { id: 'ch_3' } })],
      has_more: first,
    });
  });
  const since = new Date(1_000_000);
  const intents = await all(
    stripeListWitness({ ...FAST, apiBase: url, since, until: new Date(2_000_500) }),
  );
  expect(intents).toMatchObject([
    {
      paymentIntentId: 'pi_1',
      customerId: 'ada',
      succeeded: [{ chargeId: 'ch_1', amountMinor: 700 }],
    },
    { paymentIntentId: 'pi_3', succeeded: [], pending: true, confirmed: true },
  ]);
  const query = '/v1/payment_intents?limit=100&created%5Bgte%5D=1000&created%5Blte%5D=2001';
  expect(seen).toEqual([
    `${query} Bearer sk_test_1`,
    `${query}&starting_after=pi_2 Bearer sk_test_1`,
  ]);
});

test('lists from before the period began, so that a charge older than the plan is seen', async () => {
  let asked = '';
  const url = await listen((req, res) => {
    asked = new URL(req.url ?? '', 'http://x').searchParams.get('created[gte]') ?? '';
    send(res, 200, { data: [], has_more: false });
  });
  await all(stripeListWitness({ ...FAST, apiBase: url }));
  expect(Number(asked) * 1000).toBe(Date.UTC(2026, 7, 31));
});

test('goes on after 429, 500 and a broken body on the same page', async () => {
  let calls = 0;
  const url = await listen((_, res) => {
    calls += 1;
    if (calls === 1) send(res, 429, {});
    else if (calls === 2) send(res, 500, {});
    else if (calls === 3) res.destroy();
    else if (calls === 4) res.end('{"data": [');
    else send(res, 200, { data: [intent('pi_1')], has_more: false });
  });
  expect(await all(stripeListWitness({ ...FAST, apiBase: url }))).toHaveLength(1);
  expect(calls).toBe(5);
});

test.each([
  ['a limit that never ends', 429, {}, 7],
  ['a refused key', 401, {}, 1],
  ['a page without a list', 200, { data: null }, 1],
  ['a charge without a whole amount', 200, { data: [intent('pi_1', { amount_received: 1.5 })] }, 1],
  ['an empty page that promises more', 200, { data: [], has_more: true }, 1],
])('is unreadable, not empty, after %s', async (...[, status, body, tries]) => {
  let calls = 0;
  const url = await listen((_req, res) => {
    calls += 1;
    send(res, status, body);
  });
  const reading = all(stripeListWitness({ ...FAST, apiBase: url }));
  await expect(reading).rejects.toMatchObject({ name: 'WitnessUnreadable' });
  expect(calls).toBe(tries);
});

test('pages through the ledger and the request log of the simulator', async () => {
  const asked: string[] = [];
  const url = await listen((req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '', 'http://x');
    const after = searchParams.get('after');
    asked.push(`${pathname} ${after}`);
    const page = { has_more: after === null, next: pathname === '/_sim/ledger' ? 'pi_1' : 7 };
    const request = {
      idempotencyKey: 'k',
      method: 'POST',
      endpoint: 'e',
      bodyHash: 'h',
      attemptId: null,
    };
    send(res, 200, {
      ...page,
      entries: [],
      requests: [request, { ...request, idempotencyKey: null }],
    });
  });
  const witness = simulatorLedgerWitness(url);
  await all(witness);
  const sends = [];
  for await (const one of witness.sends?.(QUERY) ?? []) sends.push(one);
  expect(sends).toHaveLength(2);
  expect(asked).toEqual([
    '/_sim/ledger null',
    '/_sim/ledger pi_1',
    '/_sim/requests null',
    '/_sim/requests 7',
  ]);
});
