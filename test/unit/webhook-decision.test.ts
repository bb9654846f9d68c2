import { describe, expect, it } from 'vitest';
import type { SlotState } from '../../src/domain/charge.ts';
import { SLOT_ARROWS } from '../../src/domain/charge.ts';
import { decide, isOfInterest, WEBHOOK_TYPES } from '../../src/http/webhooks/decide.ts';
import { slotRef } from '../support/names.ts';

const slot = slotRef('c1');
const STATES = Object.keys(SLOT_ARROWS);

function isState(text: string): text is SlotState {
  return text in SLOT_ARROWS;
}

/** What becomes of an event about pi_1, the slot's own, on its second try. */
function outcome(type: string, state: string, more: { attempt?: number; intent?: string } = {}) {
  if (!isState(state)) throw new Error(state);
  const event = { type, paymentIntentId: more.intent ?? 'pi_1', slot, attempt: more.attempt ?? 2 };
  const decision = decide(event, { ref: slot, state, paymentIntentId: 'pi_1' });
  return decision.kind === 'finish' ? decision.result : decision.kind;
}

const FAILURES = [
  'payment_intent.payment_failed',
  'payment_intent.canceled',
  'payment_intent.requires_action',
  'charge.failed',
];

describe('decide', () => {
  it('does nothing about a charged slot, whatever an event says of its own PaymentIntent', () => {
    for (const type of [...WEBHOOK_TYPES, 'charge.succeeded', 'charge.failed']) {
      expect(['already_known', 'noted']).toContain(outcome(type, 'charged'));
    }
  });

  it.each(['payment_intent.succeeded', 'charge.succeeded'])(
    'has every slot that is not charged looked at after %s: a success is the truth',
    (type) => {
      for (const state of STATES.filter((one) => one !== 'charged' && one !== 'skipped')) {
        expect([state, outcome(type, state)]).toEqual([state, 'look']);
      }
      expect(outcome(type, 'skipped')).toBe('other_success');
    },
  );

  it.each(FAILURES)('has an open slot looked at after %s, and believes a closed one', (type) => {
    for (const state of ['claimed', 'sent', 'indeterminate', 'in_review']) {
      expect([state, outcome(type, state)]).toEqual([state, 'look']);
    }
    for (const state of ['declined', 'misconfigured', 'blocked', 'skipped']) {
      expect([state, outcome(type, state)]).toEqual([state, 'already_known']);
    }
  });

  it('gives a charge under way the time to write its own end, once', () => {
    expect(outcome('payment_intent.succeeded', 'sent', { attempt: 1 })).toBe('wait');
    expect(outcome('payment_intent.succeeded', 'sent', { attempt: 2 })).toBe('look');
    expect(outcome('payment_intent.succeeded', 'indeterminate', { attempt: 1 })).toBe('look');
  });

  it('has nobody ask again about a bank debit that is known to take days', () => {
    expect(outcome('payment_intent.processing', 'indeterminate')).toBe('already_known');
    expect(outcome('payment_intent.processing', 'sent')).toBe('look');
  });

  it.each(FAILURES)('H8: gives %s of another PaymentIntent no effect, in any state', (type) => {
    for (const state of STATES) {
      expect([state, outcome(type, state, { intent: 'pi_2' })]).toEqual([state, 'other_intent']);
    }
  });

  it('reports a success of another PaymentIntent in any state', () => {
    for (const state of STATES) {
      const result = outcome('payment_intent.succeeded', state, { intent: 'pi_2' });
      expect([state, result]).toEqual([state, 'other_success']);
    }
  });

  it('H2: parks what carries our metadata until its slot is there', () => {
    const event = { type: 'payment_intent.succeeded', paymentIntentId: 'pi_1', slot, attempt: 1 };
    expect(decide(event, null)).toEqual({ kind: 'park' });
  });

  it('ignores what is not ours, and types that nothing follows from', () => {
    const event = { paymentIntentId: 'pi_1', slot: null, attempt: 1 };
    expect(decide({ ...event, type: 'payment_intent.succeeded' }, null)).toEqual({
      kind: 'finish',
      result: 'ignored',
    });
    expect(outcome('payment_intent.created', 'sent')).toBe('ignored');
    expect(isOfInterest('payment_intent.created')).toBe(false);
    expect(isOfInterest('constructor')).toBe(false);
  });

  it('notes refunds and disputes of ours, and never parks them', () => {
    for (const type of ['charge.refunded', 'charge.dispute.created', 'charge.dispute.closed']) {
      expect(outcome(type, 'charged')).toBe('noted');
      const event = { type, paymentIntentId: 'pi_1', slot: null, attempt: 1 };
      expect(decide(event, null)).toEqual({ kind: 'finish', result: 'ignored' });
    }
  });
});
