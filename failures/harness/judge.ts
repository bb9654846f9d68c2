import type { Simulator } from '../../src/simulator/index.ts';
import type { Customer } from './exhibit.ts';
import { timelineOf, type Sent } from './timeline.ts';

/** What came of one way to do it, as Stripe's ledger has it. */
export interface Outcome {
  readonly customers: number;
  /** successful charges of all customers */
  readonly charges: number;
  /** customers with more than one successful charge */
  readonly chargedAgain: number;
  readonly missed: number;
  /** customers whose one charge is over another sum or currency than is due */
  readonly wrongAmount: number;
  /** minor units that are due, and that were taken; all currencies together */
  readonly dueMinor: number;
  readonly takenMinor: number;
  /** minor units above what is due */
  readonly tooMuchMinor: number;
  readonly requests: readonly Sent[];
}

/** Reads the ledger: by the customer at Stripe, since a careless caller leaves no other mark. */
export function outcomeOf(stripe: Simulator, customers: readonly Customer[]): Outcome {
  const { entries } = stripe.ledger();
  let charges = 0;
  let dueMinor = 0;
  let takenMinor = 0;
  let tooMuchMinor = 0;
  const harmed = { chargedAgain: 0, missed: 0, wrongAmount: 0 };
  for (const customer of customers) {
    const own = entries.filter((entry) => entry.customer === customer.stripeCustomer);
    const successes = own.flatMap((entry) =>
      entry.charges
        .filter((charge) => charge.status === 'succeeded')
        .map((charge) => ({ amount: charge.amount, currency: entry.currency })),
    );
    charges += successes.length;
    const sum = successes.reduce((total, charge) => total + charge.amount, 0);
    dueMinor += customer.amountMinor;
    takenMinor += sum;
    tooMuchMinor += Math.max(0, sum - customer.amountMinor);
    if (successes.length === 0) harmed.missed += 1;
    if (successes.length > 1) harmed.chargedAgain += 1;
    const isRight = successes.some(
      ({ amount, currency }) => amount === customer.amountMinor && currency === customer.currency,
    );
    if (successes.length === 1 && !isRight) harmed.wrongAmount += 1;
  }
  const requests = timelineOf(stripe.requests());
  const sums = { dueMinor, takenMinor, tooMuchMinor };
  return { customers: customers.length, charges, ...harmed, ...sums, requests };
}

/** Everybody was charged once, and what is due. */
export function isRight(outcome: Outcome): boolean {
  return outcome.chargedAgain === 0 && outcome.missed === 0 && outcome.wrongAmount === 0;
}

/** What came of it, in a few words. */
export function inWords(outcome: Outcome): string {
  const charges = outcome.charges === 1 ? '1 charge' : `${outcome.charges} charges`;
  const parts = [`${charges} for ${outcome.customers}`];
  if (outcome.chargedAgain > 0) parts.push(`${outcome.chargedAgain} charged again`);
  if (outcome.missed > 0) parts.push(`${outcome.missed} never charged`);
  if (outcome.wrongAmount > 0) parts.push(`${outcome.wrongAmount} charged another sum`);
  return parts.join(', ');
}

/** What was taken beside what is due, where the sum is the point. */
export function sumInWords({ dueMinor, takenMinor }: Outcome): string {
  return `${Math.round((100 * takenMinor) / dueMinor)} % of what is due`;
}
