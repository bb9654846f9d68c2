// Writes examples/customers.csv: `node examples/make-customers.ts > examples/customers.csv`.
// Seeded, so the same 500 customers come out each time; test/unit/import-example.test.ts compares.
import { stringify } from 'csv-stringify/sync';

const CUSTOMERS = 500;
const SEED = 20_261_101;

// Currency, decimals written, and the price list of that country. Mostly dollars and euros.
const PRICE_LISTS: readonly { readonly currency: string; readonly prices: readonly string[] }[] = [
  { currency: 'usd', prices: ['9.00', '17.99', '29.00', '49.50', '99.00', '249.00', '1200.00'] },
  { currency: 'usd', prices: ['5.10', '19.99', '78.40', '149.95', '0.50'] },
  { currency: 'eur', prices: ['8.50', '16.99', '27.00', '45.90', '89.00', '229.00'] },
  { currency: 'eur', prices: ['4.35', '12.49', '64.20', '1099.00'] },
  { currency: 'gbp', prices: ['7.99', '14.50', '24.00', '79.00'] },
  { currency: 'jpy', prices: ['500', '980', '1980', '12800'] },
  { currency: 'kwd', prices: ['2.750', '5.120', '14.990'] },
  { currency: 'isk', prices: ['500', '1290', '13900'] },
  { currency: 'ugx', prices: ['35000', '72500'] },
  { currency: 'chf', prices: ['9.90', '29.50'] },
  { currency: 'sek', prices: ['89.00', '299.00'] },
  { currency: 'pln', prices: ['39.00', '119.00'] },
  { currency: 'mxn', prices: ['179.00', '499.00'] },
  { currency: 'krw', prices: ['11000', '29000'] },
];

const WEIGHTS = [9, 6, 7, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1];

const GOOD_CARDS = [
  'pm_card_visa',
  'pm_card_visa',
  'pm_card_visa_debit',
  'pm_card_mastercard',
  'pm_card_mastercard_prepaid',
  'pm_card_amex',
  'pm_card_discover',
];

// Stripe's test payment methods that refuse: https://docs.stripe.com/testing#declined-payments
const BAD_CARDS = [
  'pm_card_visa_chargeDeclined',
  'pm_card_visa_chargeDeclinedInsufficientFunds',
  'pm_card_visa_chargeDeclinedInsufficientFunds',
  'pm_card_visa_chargeDeclinedInsufficientFunds',
  'pm_card_visa_chargeDeclinedVelocityLimitExceeded',
  'pm_card_chargeDeclinedExpiredCard',
  'pm_card_chargeDeclinedIncorrectCvc',
  'pm_card_chargeDeclinedProcessingError',
  'pm_card_visa_chargeDeclinedLostCard',
  'pm_card_visa_chargeDeclinedStolenCard',
  'pm_card_authenticationRequired',
  'pm_card_authenticationRequired',
];

const WITHOUT_PAYMENT_METHOD = 10;
const WITH_NOTHING_TO_CHARGE = 8;

const PLANS = ['Starter', 'Team', 'Business', 'Archive', 'Support', 'Storage, extra'];

type Random = () => number;

/** mulberry32: small, and the same everywhere. */
function seeded(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function pick<T>(random: Random, from: readonly T[]): T {
  const item = from[Math.floor(random() * from.length)];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
}

/** Row numbers for each special case, none of them used twice. */
function specialRows(random: Random) {
  const free = Array.from({ length: CUSTOMERS }, (_, row) => row);
  const take = (count: number) =>
    Array.from({ length: count }, () => free.splice(Math.floor(random() * free.length), 1)[0]);
  return {
    declined: take(BAD_CARDS.length),
    withoutMethod: new Set(take(WITHOUT_PAYMENT_METHOD)),
    withZero: new Set(take(WITH_NOTHING_TO_CHARGE)),
  };
}

function paymentMethod(random: Random, row: number, special: ReturnType<typeof specialRows>) {
  const good = pick(random, GOOD_CARDS);
  if (special.withoutMethod.has(row)) return '';
  return BAD_CARDS[special.declined.indexOf(row)] ?? good;
}

function makeCustomers(): Record<string, string>[] {
  const random = seeded(SEED);
  const special = specialRows(random);
  const weighted = PRICE_LISTS.flatMap((list, index) =>
    Array.from({ length: WEIGHTS[index] ?? 0 }, () => list),
  );
  return Array.from({ length: CUSTOMERS }, (_, row) => {
    const number = String(row + 1).padStart(4, '0');
    const { currency, prices } = pick(random, weighted);
    const price = pick(random, prices);
    return {
      customer_id: `cust_${number}`,
      stripe_customer_id: `cus_Ex${number}`,
      payment_method_id: paymentMethod(random, row, special),
      amount: special.withZero.has(row) ? '0' : price,
      currency,
      description: pick(random, PLANS),
      active: 'true',
    };
  });
}

process.stdout.write(stringify(makeCustomers(), { header: true }));
