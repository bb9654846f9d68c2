import { describe, expect, it } from 'vitest';
import { mismatchOf, readIntent } from '../../src/activities/read-intent.ts';
import type { ChargeFacts } from '../../src/db/sends.ts';
import type { PaymentIntentFacts } from '../../src/payments/gateway.ts';
import { slotRef } from '../support/names.ts';

const generation = {
  key: 'k',
  sentBefore: true,
  windowOpen: true,
  firstSentAt: new Date(0),
  spent: false,
  open: true,
};
const facts = (parts: Partial<ChargeFacts> = {}): ChargeFacts => ({
  slot: slotRef('cust_1'),
  state: 'sent',
  generation: 1,
  paymentIntentId: 'pi_1',
  chargeId: null,
  reason: null,
  stripeCustomerId: 'cus_1',
  amountMinor: 1500,
  currency: 'usd',
  create: generation,
  confirm: generation,
  earlierCharges: [],
  ...parts,
});

const metadata = {
  chargeonce_namespace: 'base',
  chargeonce_customer: 'cust_1',
  chargeonce_period: '2026-09',
};
const intent = (parts: Partial<PaymentIntentFacts> = {}): PaymentIntentFacts => ({
  id: 'pi_1',
  status: 'succeeded',
  amountMinor: 1500,
  currency: 'usd',
  customer: 'cus_1',
  metadata,
  latestCharge: 'ch_1',
  lastError: null,
  ...parts,
});

const declined = (chargeId: string | null, declineCode: string | null = 'insufficient_funds') => ({
  status: 'requires_payment_method',
  latestCharge: chargeId,
  lastError: { code: 'card_declined', declineCode, adviceCode: null, chargeId },
});

describe('readIntent', () => {
  it('takes a success for the end', () => {
    expect(readIntent(facts(), intent())).toEqual({
      kind: 'settled',
      outcome: {
        outcome: 'charged',
        paymentIntentId: 'pi_1',
        chargeId: 'ch_1',
        amountMinor: 1500,
        currency: 'usd',
      },
    });
  });

  it.each(['processing', 'requires_action', 'requires_capture', 'a_status_of_tomorrow'])(
    'leaves %s open: it is not final',
    (status) => {
      expect(readIntent(facts(), intent({ status }))).toMatchObject({
        kind: 'settled',
        outcome: { outcome: 'indeterminate', reason: status },
      });
    },
  );

  it('lets the key of the confirm go out while the intent waits for it', () => {
    expect(readIntent(facts(), intent({ status: 'requires_confirmation' }))).toEqual({
      kind: 'confirmNotDone',
    });
  });

  it('leaves it to a person when somebody has canceled the intent', () => {
    expect(readIntent(facts(), intent({ status: 'canceled' }))).toMatchObject({
      outcome: { outcome: 'misconfigured', reason: 'payment_intent_canceled', stopsRun: false },
    });
  });

  it('reads a decline with its code and advice', () => {
    expect(readIntent(facts(), intent(declined('ch_x')))).toMatchObject({
      outcome: {
        outcome: 'declined',
        reason: 'insufficient_funds',
        advice: 'try_again_later',
        declinedChargeId: 'ch_x',
      },
    });
  });

  it('does not call a duplicate of another payment a decline', () => {
    expect(readIntent(facts(), intent(declined('ch_x', 'duplicate_transaction')))).toMatchObject({
      outcome: { outcome: 'indeterminate' },
    });
  });

  it('cannot tell when the intent wants a method and shows no error', () => {
    expect(
      readIntent(facts(), intent({ status: 'requires_payment_method', latestCharge: null })),
    ).toEqual({ kind: 'ambiguous' });
  });

  describe('in generation 2', () => {
    const second = (confirm: Partial<ChargeFacts['confirm']> = {}) =>
      facts({ generation: 2, earlierCharges: ['ch_1'], confirm: { ...generation, ...confirm } });

    it('sees the decline of generation 1 as: not confirmed yet', () => {
      expect(readIntent(second({ sentBefore: false }), intent(declined('ch_1')))).toEqual({
        kind: 'confirmNotDone',
      });
    });

    it('cannot tell when its own confirm went out and only the old decline shows', () => {
      expect(readIntent(second(), intent(declined('ch_1')))).toEqual({ kind: 'ambiguous' });
    });

    it('cannot tell when the decline names no charge', () => {
      expect(readIntent(second(), intent(declined(null)))).toEqual({ kind: 'ambiguous' });
    });

    it('reads a charge it has not seen before as its own decline', () => {
      expect(readIntent(second(), intent(declined('ch_2')))).toMatchObject({
        outcome: { outcome: 'declined', declinedChargeId: 'ch_2' },
      });
    });

    it('takes a success for the end', () => {
      expect(readIntent(second(), intent({ latestCharge: 'ch_2' }))).toMatchObject({
        outcome: { outcome: 'charged' },
      });
    });
  });
});

describe('mismatchOf', () => {
  it.each<[string, Partial<PaymentIntentFacts>]>([
    ['reply_for_another_customer', { customer: 'cus_2' }],
    ['reply_for_another_customer', { customer: null }],
    ['reply_with_another_amount', { amountMinor: 1501 }],
    ['reply_in_another_currency', { currency: 'eur' }],
    ['reply_for_another_payment_intent', { id: 'pi_2' }],
    ['reply_for_another_slot', { metadata: { ...metadata, chargeonce_period: '2026-08' } }],
    ['reply_for_another_slot', { metadata: { ...metadata, chargeonce_customer: 'cust_2' } }],
    ['reply_for_another_slot', { metadata: { ...metadata, chargeonce_namespace: 'overage' } }],
    ['reply_for_another_slot', { metadata: {} }],
  ])('I13: says %s for %o, whatever the status', (reason, parts) => {
    expect(mismatchOf(facts(), intent(parts))).toBe(reason);
    expect(readIntent(facts(), intent(parts))).toMatchObject({
      outcome: { outcome: 'indeterminate', reason },
    });
  });

  it('finds nothing wrong with our own intent, also before its id is known', () => {
    expect(mismatchOf(facts(), intent())).toBeNull();
    expect(mismatchOf(facts({ paymentIntentId: null }), intent())).toBeNull();
  });
});
