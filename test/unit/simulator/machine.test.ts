import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Agenda } from '../../../src/simulator/agenda.ts';
import { VirtualClock } from '../../../src/simulator/clock.ts';
import { ApiError } from '../../../src/simulator/errors.ts';
import { cancelIntent, confirmIntent, saveIntent } from '../../../src/simulator/machine.ts';
import type { Stage } from '../../../src/simulator/machine.ts';
import type { ConfirmOrder, IntentRecord } from '../../../src/simulator/records.ts';
import { Store } from '../../../src/simulator/store.ts';

const origin = { requestId: 'req_1', idempotencyKey: 'k', apiVersion: 'v' };
const intent: IntentRecord = {
  id: 'pi_1',
  created: 1,
  metadata: {},
  amount: 500,
  currency: 'usd',
  customer: 'cus_1',
  paymentMethod: 'pm_card_visa',
  paymentMethodTypes: ['card'],
  automaticPaymentMethods: true,
  status: 'requires_confirmation',
  description: null,
  captureMethod: 'automatic',
  confirmationMethod: 'automatic',
  setupFutureUsage: null,
  receiptEmail: null,
  statementDescriptor: null,
  statementDescriptorSuffix: null,
  latestCharge: null,
  lastError: null,
  canceledAt: null,
  cancellationReason: null,
  pending: null,
  keys: [],
};

const methods = [
  'pm_card_visa',
  'pm_card_visa_chargeDeclined',
  'pm_card_authenticationRequired',
  'pm_usBankAccount_success',
  'pm_usBankAccount_insufficientFunds',
];
const action = fc.oneof(
  fc.record({
    do: fc.constant('confirm' as const),
    method: fc.constantFrom(...methods),
    offSession: fc.boolean(),
  }),
  fc.record({
    do: fc.constant('late' as const),
    method: fc.constantFrom(...methods),
    afterMs: fc.integer({ min: 0, max: 90_000 }),
  }),
  fc.record({ do: fc.constant('cancel' as const) }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 90_000 }) }),
);
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;

function orderFor(paymentMethod: string, offSession: boolean): ConfirmOrder {
  return { paymentMethod, offSession, errorOnRequiresAction: false, forcedDecline: null };
}

function take(stage: Stage, agenda: Agenda, one: Action): void {
  const now = stage.tenant.intents.get('pi_1') ?? intent;
  switch (one.do) {
    case 'confirm':
      confirmIntent(stage, now, orderFor(one.method, one.offSession));
      break;
    case 'late': {
      if (now.status !== 'requires_confirmation') break;
      const atMs = stage.clock.nowMs() + one.afterMs;
      saveIntent(stage, {
        ...now,
        pending: { kind: 'lateConfirm', atMs, order: orderFor(one.method, true), origin },
      });
      break;
    }
    case 'cancel':
      cancelIntent(stage, now, null);
      break;
    case 'wait':
      stage.clock.advance(one.ms);
      agenda.run();
      break;
  }
}

describe('the PaymentIntent machine', () => {
  test('charges an intent successfully at most once, and its final states are final', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 25 }), (actions) => {
        const clock = new VirtualClock();
        const store = new Store(clock, undefined);
        const tenant = store.tenant('acct_1', false);
        const agenda = new Agenda(store, clock, 'v');
        const stage = { store, clock, tenant, origin };
        saveIntent(stage, intent);
        let final: string | undefined;
        for (const one of actions) {
          try {
            take(stage, agenda, one);
          } catch (error) {
            if (!(error instanceof ApiError)) throw error;
          }
          const { status } = tenant.intents.get('pi_1') ?? intent;
          expect(status).toBe(final ?? status);
          if (status === 'succeeded' || status === 'canceled') final = status;
        }
        const good = tenant.charges.values().filter((charge) => charge.status === 'succeeded');
        expect(good).toHaveLength(final === 'succeeded' ? 1 : 0);
        const events = tenant.events
          .values()
          .filter((event) => event.type === 'payment_intent.succeeded');
        expect(events).toHaveLength(good.length);
      }),
    );
  });
});
