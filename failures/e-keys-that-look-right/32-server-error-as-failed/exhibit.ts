import type { Exhibit } from '../../harness/exhibit.ts';
import type { Simulator } from '../../../src/simulator/index.ts';
import { bill as fixed, type Payment as FixedPayment } from './fixed.ts';
import { bill as tempting, type Payment } from './tempting.ts';

/** Stripe charges, breaks afterwards, and answers 500. */
function breaksAfterCharging(stripe: Simulator, operation: 'create' | 'confirm'): void {
  stripe.setFaults({
    rules: [
      {
        id: 'breaks after charging',
        endpoint: `payment_intents.${operation}`,
        kind: 'actThen500',
        limit: 1,
      },
    ],
  });
}

export const serverErrorAsFailed: Exhibit = {
  number: 32,
  name: 'server-error-as-failed',
  room: 'E',
  title: 'Stripe charges and answers 500: the payment is "failed", and the next one has a new key',
  rule: 'Failed is what Stripe says has failed: a decline. A 5xx, a time-out or a broken line is unknown, and keeps its key.',
  harm: 'chargedAgain',
  async tempting(world) {
    breaksAfterCharging(world.stripe, 'create');
    const payments: Payment[] = [];
    await tempting(world, payments);
    await tempting(world, payments);
  },
  async fixed(world) {
    breaksAfterCharging(world.stripe, 'create');
    const payments: FixedPayment[] = [];
    await fixed(world, payments);
    await fixed(world, payments);
  },
  async ours(world) {
    breaksAfterCharging(world.stripe, 'confirm');
    await world.bill();
    const [fault] = world.stripe.counters().faults;
    if (fault?.fired !== 1) throw new Error('Stripe did not break');
  },
};
