import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Simulator } from '../../../src/simulator/index.ts';
import { clientOf, errorOf, idOf, intentParams, send, startUnlimited } from './support.ts';

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startUnlimited();
});
afterAll(() => simulator.close());

describe('lists', () => {
  test('pages forwards and backwards through one customer, newest first, without gaps or repeats', async () => {
    const stripe = clientOf(simulator);
    const ids: string[] = [];
    for (let n = 0; n < 7; n += 1) {
      ids.unshift(
        (await stripe.paymentIntents.create(intentParams('pages', { amount: 1000 + n }))).id,
      );
      await stripe.paymentIntents.create(intentParams('pages_other'));
    }
    const all = await stripe.paymentIntents
      .list({ customer: 'cus_pages', limit: 3 })
      .autoPagingToArray({ limit: 50 });
    expect(all.map(({ id }) => id)).toEqual(ids);
    const first = await stripe.paymentIntents.list({ customer: 'cus_pages', limit: 3 });
    expect(first).toMatchObject({ object: 'list', has_more: true, url: '/v1/payment_intents' });
    const before = await stripe.paymentIntents.list({
      customer: 'cus_pages',
      limit: 2,
      ending_before: String(ids[4]),
    });
    expect(before.data.map(({ id }) => id)).toEqual(ids.slice(2, 4));
    expect(before.has_more).toBe(true);
    const last = await stripe.paymentIntents.list({
      customer: 'cus_pages',
      limit: 3,
      starting_after: String(ids[5]),
    });
    expect(last.data.map(({ id }) => id)).toEqual(ids.slice(6));
    expect(last.has_more).toBe(false);
  });

  test('filters by each bound of created', async () => {
    const own = await startUnlimited();
    try {
      const stripe = clientOf(own);
      const created: number[] = [];
      for (let n = 0; n < 3; n += 1) {
        created.push((await stripe.paymentIntents.create(intentParams('range'))).created);
        own.advanceClock(10_000);
      }
      const [a = 0, b = 0, c = 0] = created;
      const timesFor = async (
        range: number | { gt?: number; gte?: number; lt?: number; lte?: number },
      ) =>
        (await stripe.paymentIntents.list({ customer: 'cus_range', created: range })).data.map(
          (one) => one.created,
        );
      expect(await timesFor({ gte: b })).toEqual([c, b]);
      expect(await timesFor({ gt: b })).toEqual([c]);
      expect(await timesFor({ lte: b })).toEqual([b, a]);
      expect(await timesFor({ lt: b })).toEqual([a]);
      expect(await timesFor({ gt: a, lt: c })).toEqual([b]);
      expect(await timesFor(b)).toEqual([b]);
    } finally {
      await own.close();
    }
  });

  test.each(['0', '101', 'x'])('refuses limit=%s', async (limit) => {
    expect((await send(simulator, `/v1/payment_intents?limit=${limit}`)).status).toBe(400);
  });

  test('shows a new intent in the list at once, but in Search only after the lag', async () => {
    const own = await startUnlimited({ searchLagMs: 60_000 });
    try {
      const stripe = clientOf(own);
      const intent = await stripe.paymentIntents.create(intentParams('lag'));
      const query = "metadata['chargeonce_customer']:'LAG' AND status:'requires_confirmation'";
      expect((await stripe.paymentIntents.list({ customer: 'cus_lag' })).data).toHaveLength(1);
      expect((await stripe.paymentIntents.search({ query })).data).toEqual([]);
      own.advanceClock(62_000);
      expect((await stripe.paymentIntents.search({ query })).data.map(({ id }) => id)).toEqual([
        intent.id,
      ]);
    } finally {
      await own.close();
    }
  });
});

describe('other resources', () => {
  test('tells the account of the key', async () => {
    expect(await clientOf(simulator).accounts.retrieveCurrent()).toMatchObject({
      id: 'acct_A',
      object: 'account',
      charges_enabled: true,
    });
  });

  test('creates, retrieves and lists customers; two may share one address', async () => {
    const stripe = clientOf(simulator);
    const one = await stripe.customers.create({ email: 'ann@example.com', metadata: { n: '1' } });
    const two = await stripe.customers.create({ email: 'ann@example.com' });
    expect(await stripe.customers.retrieve(one.id)).toMatchObject({
      id: one.id,
      email: 'ann@example.com',
      metadata: { n: '1' },
    });
    expect(
      (await stripe.customers.list({ email: 'ann@example.com' })).data.map(({ id }) => id),
    ).toEqual([two.id, one.id]);
    expect((await stripe.customers.list({ email: 'Ann@example.com' })).data).toEqual([]);
  });

  test('knows only created customers when it is strict', async () => {
    const strict = await startUnlimited({ strictCustomers: true });
    try {
      const stripe = clientOf(strict);
      expect((await errorOf(stripe.paymentIntents.create(intentParams('ghost')))).code).toBe(
        'resource_missing',
      );
      const { id } = await stripe.customers.create({});
      expect(
        (await stripe.paymentIntents.create(intentParams('real', { customer: id }))).customer,
      ).toBe(id);
    } finally {
      await strict.close();
    }
  });

  test('refunds in parts, never more than was charged', async () => {
    const stripe = clientOf(simulator);
    const intent = await stripe.paymentIntents.create(intentParams('refund', { confirm: true }));
    const part = await stripe.refunds.create({ payment_intent: intent.id, amount: 500 });
    expect(part).toMatchObject({
      object: 'refund',
      amount: 500,
      status: 'succeeded',
      charge: intent.latest_charge,
    });
    expect(
      (await errorOf(stripe.refunds.create({ payment_intent: intent.id, amount: 1001 })))
        .statusCode,
    ).toBe(400);
    await stripe.refunds.create({ charge: idOf(intent.latest_charge) });
    expect(await stripe.charges.retrieve(idOf(intent.latest_charge))).toMatchObject({
      refunded: true,
      amount_refunded: 1500,
    });
    expect((await errorOf(stripe.refunds.create({ payment_intent: intent.id }))).code).toBe(
      'charge_already_refunded',
    );
  });

  test('retrieves a payment method by its test name', async () => {
    expect(await clientOf(simulator).paymentMethods.retrieve('pm_card_mastercard')).toMatchObject({
      type: 'card',
      card: { brand: 'mastercard', last4: '4444' },
    });
  });
});
