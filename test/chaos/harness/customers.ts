import { Luck } from './luck.ts';

/** What a customer's card does, and what the slot may therefore end as when no fault is left. */
interface Kind {
  readonly paymentMethod: string;
  readonly share: number;
  readonly mayEnd: readonly string[];
}

/** A good card may also be declined, by the provider's own fault of that name. */
const KINDS: readonly Kind[] = [
  { paymentMethod: 'pm_card_visa', share: 0.84, mayEnd: ['charged', 'declined'] },
  { paymentMethod: 'pm_card_chargeCustomerFail', share: 0.08, mayEnd: ['declined'] },
  { paymentMethod: 'pm_card_authenticationRequired', share: 0.02, mayEnd: ['declined'] },
  // A bank debit: unknown for a minute of the provider's time, then paid or returned.
  { paymentMethod: 'pm_usBankAccount_processing', share: 0.02, mayEnd: ['charged', 'declined'] },
  { paymentMethod: 'pm_usBankAccount_insufficientFunds', share: 0.02, mayEnd: ['declined'] },
  { paymentMethod: '', share: 0.02, mayEnd: ['skipped'] },
];

export interface ChaosCustomer {
  readonly id: string;
  readonly paymentMethod: string;
  readonly mayEnd: readonly string[];
}

/** The customers of a seed; each kind at least once from ten customers on. */
export function makeCustomers(count: number, seed: number): ChaosCustomer[] {
  const luck = new Luck(seed, 'customers');
  return Array.from({ length: count }, (_, index) => {
    const id = `c${String(index + 1).padStart(6, '0')}`;
    const { paymentMethod, mayEnd } = KINDS[index] ?? byShare(luck.next());
    return { id, paymentMethod, mayEnd };
  });
}

function byShare(at: number): Kind {
  let sum = 0;
  const found = KINDS.find(({ share }) => (sum += share) > at) ?? KINDS[0];
  if (found === undefined) throw new Error('there are no kinds of customers');
  return found;
}

/** The file that `chargeonce import customers` takes. */
export function customersFile(customers: readonly ChaosCustomer[]): string {
  const lines = customers.map(({ id, paymentMethod }, index) =>
    [id, `cus_${id}`, paymentMethod, `${10 + (index % 90)}.${10 + (index % 89)}`, 'usd'].join(','),
  );
  return ['customer_id,stripe_customer_id,payment_method_id,amount,currency', ...lines, ''].join(
    '\n',
  );
}
