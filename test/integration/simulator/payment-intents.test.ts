import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Simulator } from '../../../src/simulator/index.ts';
import { clientOf, errorOf, idOf, intentParams, startUnlimited } from './support.ts';

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startUnlimited();
});
afterAll(() => simulator.close());

describe('PaymentIntents through the official client', () => {
  test('charges once when an unconfirmed intent is confirmed off-session', async () => {
    const stripe = clientOf(simulator);
    const created = await stripe.paymentIntents.create(intentParams('plain'), {
      idempotencyKey: 'plain-create',
    });
    expect(created.status).toBe('requires_confirmation');
    expect(created.latest_charge).toBeNull();
    const confirmed = await stripe.paymentIntents.confirm(
      created.id,
      { off_session: true },
      { idempotencyKey: 'plain-confirm' },
    );
    expect(confirmed).toMatchObject({
      status: 'succeeded',
      amount_received: 1500,
      customer: 'cus_plain',
      livemode: false,
    });
    const charge = await stripe.charges.retrieve(idOf(confirmed.latest_charge));
    expect(charge).toMatchObject({
      status: 'succeeded',
      paid: true,
      amount: 1500,
      payment_intent: created.id,
    });
    const { entries, groups } = simulator.ledger({ customer: 'plain' });
    expect(entries[0]).toMatchObject({
      charge: charge.id,
      idempotencyKeys: ['plain-create', 'plain-confirm'],
    });
    expect(groups).toMatchObject([
      {
        customer: 'plain',
        period: '2026-09',
        succeeded: 1,
        succeededMinorByCurrency: { usd: 1500 },
      },
    ]);
  });

  test('refuses to confirm an intent that has succeeded, even under a new key', async () => {
    const stripe = clientOf(simulator);
    const intent = await stripe.paymentIntents.create(
      intentParams('twice', { confirm: true, off_session: true }),
    );
    const error = await errorOf(
      stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'twice-again' }),
    );
    expect(error).toMatchObject({ statusCode: 400, code: 'payment_intent_unexpected_state' });
    expect(simulator.ledger({ customer: 'twice' }).groups[0]?.succeeded).toBe(1);
  });

  test('reports a decline with its codes and the whole intent, and lets it be confirmed again with another card', async () => {
    const stripe = clientOf(simulator);
    const intent = await stripe.paymentIntents.create(
      intentParams('poor', { payment_method: 'pm_card_visa_chargeDeclinedInsufficientFunds' }),
    );
    const error = await errorOf(stripe.paymentIntents.confirm(intent.id, { off_session: true }));
    expect(error).toMatchObject({
      type: 'StripeCardError',
      statusCode: 402,
      code: 'card_declined',
      decline_code: 'insufficient_funds',
      advice_code: 'try_again_later',
      network_decline_code: '51',
      payment_intent: {
        id: intent.id,
        status: 'requires_payment_method',
        payment_method: null,
        last_payment_error: {
          code: 'card_declined',
          decline_code: 'insufficient_funds',
          payment_method: { id: 'pm_card_visa_chargeDeclinedInsufficientFunds' },
        },
      },
    });
    const noMethod = await errorOf(stripe.paymentIntents.confirm(intent.id, { off_session: true }));
    expect(noMethod.code).toBe('payment_intent_unexpected_state');
    const paid = await stripe.paymentIntents.confirm(intent.id, {
      off_session: true,
      payment_method: 'pm_card_visa',
    });
    expect(paid).toMatchObject({ status: 'succeeded', last_payment_error: null });
    const charges = await stripe.charges.list({ payment_intent: intent.id });
    expect(charges.data.map(({ status }) => status)).toEqual(['succeeded', 'failed']);
  });

  test.each([
    ['pm_card_visa_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_chargeCustomerFail', 'card_declined', 'generic_decline'],
    ['pm_card_visa_chargeDeclinedLostCard', 'card_declined', 'lost_card'],
    ['pm_card_visa_chargeDeclinedStolenCard', 'card_declined', 'stolen_card'],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', 'expired_card'],
    ['pm_card_chargeDeclinedProcessingError', 'processing_error', 'processing_error'],
    ['pm_card_declined_duplicate_transaction', 'card_declined', 'duplicate_transaction'],
    ['pm_card_declined_do_not_try_again', 'card_declined', 'do_not_try_again'],
    ['pm_card_declined_fraudulent', 'card_declined', 'fraudulent'],
  ])('declines %s as %s / %s', async (method, code, declineCode) => {
    const error = await errorOf(
      clientOf(simulator).paymentIntents.create(
        intentParams('declines', { payment_method: method, confirm: true, off_session: true }),
      ),
    );
    expect(error).toMatchObject({ statusCode: 402, code, decline_code: declineCode });
  });

  test('asks for authentication: 402 off-session, requires_action on-session', async () => {
    const stripe = clientOf(simulator);
    const method = { payment_method: 'pm_card_authenticationRequired' };
    const off = await errorOf(
      stripe.paymentIntents.create(
        intentParams('sca', { ...method, confirm: true, off_session: true }),
      ),
    );
    expect(off).toMatchObject({
      statusCode: 402,
      code: 'authentication_required',
      payment_intent: { status: 'requires_payment_method' },
    });
    const on = await stripe.paymentIntents.create(
      intentParams('sca', { ...method, confirm: true }),
    );
    expect(on).toMatchObject({ status: 'requires_action', latest_charge: null });
    const strict = await errorOf(
      stripe.paymentIntents.create(
        intentParams('sca', { ...method, confirm: true, error_on_requires_action: true }),
      ),
    );
    expect(strict.code).toBe('authentication_required');
  });

  test('settles a processing debit by the clock, to succeeded or to a failure', async () => {
    const own = await startUnlimited();
    try {
      const stripe = clientOf(own);
      const good = await stripe.paymentIntents.create(
        intentParams('ach1', {
          payment_method: 'pm_usBankAccount_processing',
          confirm: true,
          off_session: true,
        }),
      );
      const bad = await stripe.paymentIntents.create(
        intentParams('ach2', {
          payment_method: 'pm_usBankAccount_insufficientFunds',
          confirm: true,
          off_session: true,
        }),
      );
      expect([good.status, bad.status]).toEqual(['processing', 'processing']);
      expect(own.ledger().groups.map(({ pending, succeeded }) => [pending, succeeded])).toEqual([
        [1, 0],
        [1, 0],
      ]);
      own.advanceClock(60_000);
      expect((await stripe.paymentIntents.retrieve(good.id)).status).toBe('succeeded');
      expect(await stripe.paymentIntents.retrieve(bad.id)).toMatchObject({
        status: 'requires_payment_method',
        last_payment_error: { decline_code: 'insufficient_funds' },
      });
      const events = await stripe.events.list({
        types: ['payment_intent.succeeded', 'payment_intent.payment_failed'],
      });
      expect(events.data.map(({ type }) => type).sort()).toEqual([
        'payment_intent.payment_failed',
        'payment_intent.succeeded',
      ]);
    } finally {
      await own.close();
    }
  });

  test('cancels an open intent and then refuses to confirm it', async () => {
    const stripe = clientOf(simulator);
    const intent = await stripe.paymentIntents.create(intentParams('cancel'));
    const canceled = await stripe.paymentIntents.cancel(intent.id, {
      cancellation_reason: 'abandoned',
    });
    expect(canceled).toMatchObject({ status: 'canceled', cancellation_reason: 'abandoned' });
    expect((await errorOf(stripe.paymentIntents.confirm(intent.id))).code).toBe(
      'payment_intent_unexpected_state',
    );
    expect((await errorOf(stripe.paymentIntents.cancel(intent.id))).code).toBe(
      'payment_intent_unexpected_state',
    );
  });

  test('merges metadata on update: an empty value removes its key', async () => {
    const stripe = clientOf(simulator);
    const intent = await stripe.paymentIntents.create(
      intentParams('meta', { metadata: { a: '1', b: '2' } }),
    );
    const updated = await stripe.paymentIntents.update(intent.id, {
      metadata: { a: '', c: '3' },
      amount: 1600,
    });
    expect(updated).toMatchObject({ metadata: { b: '2', c: '3' }, amount: 1600 });
  });

  test('expands the latest charge where asked, and refuses an expansion it does not know', async () => {
    const stripe = clientOf(simulator);
    const intent = await stripe.paymentIntents.create(
      intentParams('expand', { confirm: true, expand: ['latest_charge'] }),
    );
    expect(intent.latest_charge).toMatchObject({ object: 'charge', status: 'succeeded' });
    const list = await stripe.paymentIntents.list({
      customer: 'cus_expand',
      expand: ['data.latest_charge'],
    });
    expect(list.data[0]?.latest_charge).toMatchObject({ object: 'charge' });
    expect(
      (await errorOf(stripe.paymentIntents.retrieve(intent.id, { expand: ['nothing'] })))
        .statusCode,
    ).toBe(400);
  });
});
