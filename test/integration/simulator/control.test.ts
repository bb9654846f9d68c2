import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Simulator } from '../../../src/simulator/index.ts';
import { clientOf, intentParams, readControl, send, startUnlimited } from './support.ts';

let simulator: Simulator;
beforeEach(async () => {
  simulator = await startUnlimited({ requestLogSize: 50 });
});
afterEach(() => simulator.close());

describe('the ledger', () => {
  test('groups by metadata, so that two keys for one slot show as two charges', async () => {
    const stripe = clientOf(simulator);
    await stripe.paymentIntents.create(intentParams('a', { confirm: true }), {
      idempotencyKey: 'one',
    });
    await stripe.paymentIntents.create(intentParams('a', { confirm: true }), {
      idempotencyKey: 'two',
    });
    await stripe.paymentIntents.create(intentParams('b', { confirm: true, currency: 'jpy' }));
    await stripe.paymentIntents.create({
      amount: 700,
      currency: 'usd',
      payment_method: 'pm_card_visa',
      confirm: true,
    });
    const ledger = await readControl(simulator, 'ledger', '?period=2026-09&namespace=base');
    expect(ledger.entries).toHaveLength(3);
    expect(
      ledger.groups.map((group) => [
        group.customer,
        group.succeeded,
        group.succeededMinorByCurrency,
      ]),
    ).toEqual([
      ['a', 2, { usd: 3000 }],
      ['b', 1, { jpy: 1500 }],
    ]);
    expect((await readControl(simulator, 'ledger')).entries).toHaveLength(4);
    expect((await readControl(simulator, 'ledger', '?period=2026-10')).groups).toEqual([]);
  });

  test('pages its entries, and gives the groups of the whole with the first page', async () => {
    for (let n = 0; n < 5; n += 1)
      await clientOf(simulator).paymentIntents.create(intentParams(`p${n}`));
    const first = await readControl(simulator, 'ledger', '?limit=3');
    expect([first.entries.length, first.groups.length, first.has_more]).toEqual([3, 5, true]);
    const second = await readControl(simulator, 'ledger', `?limit=3&after=${first.next}`);
    expect([second.entries.length, second.groups.length, second.has_more, second.next]).toEqual([
      2,
      0,
      false,
      null,
    ]);
    const both = [...first.entries, ...second.entries].map(
      (entry) => entry.metadata['chargeonce_customer'],
    );
    expect(both).toEqual(['p0', 'p1', 'p2', 'p3', 'p4']);
    expect(await readControl(simulator, 'ledger', '?entries=0')).toMatchObject({
      entries: [],
      groups: { length: 5 },
    });
  });
});

describe('the request log', () => {
  test('has key, X-Attempt-Id and body hash of every physical request, in order', async () => {
    const body = { amount: '500', currency: 'usd' };
    await send(simulator, '/v1/payment_intents', {
      body,
      key: 'log',
      headers: { 'X-Attempt-Id': 'att-1' },
    });
    await send(simulator, '/v1/payment_intents', {
      body,
      key: 'log',
      headers: { 'X-Attempt-Id': 'att-2' },
    });
    const { requests } = await readControl(simulator, 'requests');
    const bodyHash = createHash('sha256')
      .update(new URLSearchParams(body).toString())
      .digest('hex');
    expect(requests).toMatchObject([
      {
        seq: 1,
        attemptId: 'att-1',
        idempotencyKey: 'log',
        bodyHash,
        status: 200,
        executed: true,
        replayed: false,
        endpoint: 'payment_intents.create',
        account: 'acct_A',
      },
      {
        seq: 2,
        attemptId: 'att-2',
        idempotencyKey: 'log',
        bodyHash,
        status: 200,
        executed: false,
        replayed: true,
      },
    ]);
  });

  test('keeps the newest requests within its bound, and pages', async () => {
    for (let n = 0; n < 120; n += 1) await send(simulator, '/v1/account');
    const all = await readControl(simulator, 'requests');
    expect(all.requests).toHaveLength(50);
    expect(all.requests.at(-1)?.seq).toBe(120);
    const page = await readControl(simulator, 'requests', '?after=100&limit=15');
    expect([page.requests[0]?.seq, page.requests.length, page.has_more, page.next]).toEqual([
      101,
      15,
      true,
      115,
    ]);
  });
});

describe('the control API', () => {
  test('counts by endpoint and status', async () => {
    await send(simulator, '/v1/account');
    await send(simulator, '/v1/account', { headers: { Authorization: 'no' } });
    expect(await readControl(simulator, 'counters')).toMatchObject({
      requests: 2,
      byEndpoint: { 'account.retrieve': 2 },
      byStatus: { 200: 1, 401: 1 },
      byEndpointAndStatus: { 'account.retrieve 200': 1, 'account.retrieve 401': 1 },
      faults: [],
    });
  });

  test('reset forgets objects, keys, log and clock', async () => {
    const request = { body: { amount: '500', currency: 'usd' }, key: 'reset' };
    const first = await send(simulator, '/v1/payment_intents', request);
    simulator.advanceClock(5_000_000);
    await fetch(`${simulator.url}/_sim/reset`, { method: 'POST' });
    expect((await readControl(simulator, 'ledger')).entries).toEqual([]);
    expect((await readControl(simulator, 'requests')).requests).toEqual([]);
    expect((await readControl(simulator, 'clock')).nowMs).toBeLessThan(Date.now() + 1_000_000);
    expect((await send(simulator, '/v1/payment_intents', request)).json.id).not.toBe(first.json.id);
  });

  test.each([
    ['clock', { advanceMs: -1 }],
    ['clock', { advanceMs: 'soon' }],
    ['webhooks', { url: 'http://127.0.0.1:1/' }],
    ['webhooks/deliver', {}],
    ['faults', { rules: 'all' }],
  ])('refuses bad input to %s with 400 and a reason (%#)', async (path, body) => {
    const reply = await fetch(`${simulator.url}/_sim/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
    });
    expect(reply.status).toBe(400);
    expect(await reply.text()).toMatch(/"error":"\w/);
  });

  test('answers 404 to what it does not offer, and health to those who wait for it', async () => {
    expect((await fetch(`${simulator.url}/_sim/nothing`)).status).toBe(404);
    expect(await readControl(simulator, 'health')).toMatchObject({ ok: true });
  });

  test('answers 413 to a body larger than any legal request', async () => {
    const reply = await send(simulator, '/v1/payment_intents', {
      body: { description: 'x'.repeat(300_000) },
    });
    expect(reply.status).toBe(413);
  });

  test('close does not wait for a slow request, whose charge then never happens', async () => {
    const own = await startUnlimited({
      faults: { rules: [{ id: 's', endpoint: '*', kind: 'slow', delayMs: 300_000 }] },
    });
    const hanging = send(own, '/v1/payment_intents', {
      body: { amount: '500', currency: 'usd', payment_method: 'pm_card_visa', confirm: 'true' },
    });
    const ended = Promise.allSettled([hanging]);
    await expect.poll(() => own.counters().maxPerSecond['payment_intents.create']).toBe(1);
    await own.close();
    expect((await ended)[0].status).toBe('rejected');
    expect(own.ledger().entries).toEqual([]);
  });
});
