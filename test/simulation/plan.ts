// What happens in the world of a seed: who is billed, what is ordered, what breaks and when. A list, so
// that parts of it can be left out; nothing in it depends on what else is in it.
import { lot } from './virtual-time.ts';

export interface PlannedCustomer {
  readonly id: string;
  readonly paymentMethod: string | null;
  readonly amountMinor: number;
  readonly currency: string;
  /** Stripe answers no look-up about this customer, ever: the one way to lose the evidence */
  readonly hidden: boolean;
}

type StripeFaultKind =
  | 'refuse'
  | 'resetBefore'
  | 'actThenDrop'
  | 'actThen500'
  | 'fail500'
  | 'lateSuccess500'
  | 'status409'
  | 'status429'
  | 'status502'
  | 'status502acted'
  | 'status503noRetry'
  | 'slow'
  | 'lateArrival'
  | 'deliveredTwice'
  | 'truncate'
  | 'wrongContentType'
  | 'declineOnce'
  | 'swapped';

export interface StripeFault {
  readonly on: 'stripe';
  readonly customer: string;
  readonly endpoint: string;
  /** the first request of the customer's to this endpoint that it hits, counted from 1 */
  readonly nth: number;
  /** how many in a row */
  readonly times: number;
  readonly kind: StripeFaultKind;
  readonly ms: number;
}

export interface DatabaseFault {
  readonly on: 'database';
  readonly customer: string;
  readonly nth: number;
  /** a lost connection, or a SQLSTATE before the statement takes effect */
  readonly kind:
    | 'refused'
    | 'answerLost'
    | '40001'
    | '40P01'
    | '55P03'
    | '53100'
    | '57014'
    | '25006';
}

export interface ActivityFault {
  readonly on: 'activity';
  readonly customer: string;
  readonly activity: string;
  readonly nth: number;
  readonly kind: 'twice' | 'resultLost' | 'killed' | 'frozen';
  readonly call: number;
  readonly when: 'before' | 'after';
  readonly forMs: number;
}

export interface WorldFault {
  readonly on: 'world';
  readonly kind: 'databaseDown' | 'stripeDown' | 'workerKilled' | 'temporalForgets';
  readonly atMs: number;
  readonly forMs: number;
}

export type Fault = StripeFault | DatabaseFault | ActivityFault | WorldFault;

export type Order =
  | {
      readonly order: 'tick' | 'manual' | 'pauseAndResume';
      readonly atMs: number;
      readonly forMs: number;
    }
  | {
      readonly order: 'rerun' | 'rerunSignal';
      readonly customer: string;
      readonly requestId: string;
      readonly atMs: number;
    }
  | {
      readonly order: 'hint' | 'cancelIntent' | 'doubleAmount';
      readonly customer: string;
      readonly atMs: number;
    }
  | {
      readonly order: 'newCard';
      readonly customer: string;
      readonly paymentMethod: string;
      readonly atMs: number;
    };

export interface Plan {
  readonly seed: number;
  readonly customers: readonly PlannedCustomer[];
  readonly faults: readonly Fault[];
  readonly orders: readonly Order[];
  /** from here on nothing new goes wrong */
  readonly healsAtMs: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Weights add up to 100. */
const CARDS: readonly (readonly [number, string | null])[] = [
  [59, 'pm_card_visa'],
  [12, 'pm_card_chargeDeclinedInsufficientFunds'],
  [4, 'pm_card_authenticationRequired'],
  [3, 'pm_card_chargeDeclinedDuplicateTransaction'],
  [7, 'pm_usBankAccount_success'],
  [4, 'pm_usBankAccount_insufficientFunds'],
  [5, 'pm_missing_card'],
  [6, null],
];

const STRIPE_KINDS: readonly StripeFaultKind[] = [
  'refuse',
  'resetBefore',
  'actThenDrop',
  'actThenDrop',
  'actThen500',
  'fail500',
  'lateSuccess500',
  'status409',
  'status429',
  'status502',
  'status502acted',
  'status503noRetry',
  'slow',
  'slow',
  'lateArrival',
  'deliveredTwice',
  'truncate',
  'wrongContentType',
  'declineOnce',
  'swapped',
];
const ENDPOINTS = [
  'payment_intents.create',
  'payment_intents.confirm',
  'payment_intents.confirm',
  'payment_intents.retrieve',
  'payment_intents.list',
  'charges.list',
  'events.list',
];
const DATABASE_KINDS: readonly DatabaseFault['kind'][] = [
  'refused',
  'answerLost',
  'answerLost',
  'answerLost',
  '40001',
  '40P01',
  '55P03',
  '53100',
  '57014',
  '25006',
];
const ACTIVITIES = ['charge', 'charge', 'charge', 'record', 'claimSlot', 'reconcile', 'look'];

/** Named lots of one seed: each is the same whatever else is drawn. */
class Lots {
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  in01(name: string): number {
    return lot(`${this.#seed} ${name}`);
  }

  int(name: string, from: number, to: number): number {
    return from + Math.floor(this.in01(name) * (to - from + 1));
  }

  chance(name: string, probability: number): boolean {
    return this.in01(name) < probability;
  }

  /** Short spans are as likely as long ones. */
  span(name: string, fromMs: number, toMs: number): number {
    return Math.round(fromMs * (toMs / fromMs) ** this.in01(name));
  }

  pick<T>(name: string, from: readonly T[]): T {
    const chosen = from[Math.floor(this.in01(name) * from.length)];
    if (chosen === undefined) throw new Error('nothing to pick from');
    return chosen;
  }
}

/** The plan of a seed. */
export function planOf(seed: number): Plan {
  const lots = new Lots(seed);
  const horizonMs = horizonOf(lots);
  const customers: PlannedCustomer[] = [];
  const faults: Fault[] = [];
  const orders: Order[] = [{ order: 'tick', atMs: 0, forMs: 0 }];
  const count = lots.int('customers', 2, 4);
  for (let i = 1; i <= count; i += 1) {
    const customer = customerOf(lots, `c${i}`);
    customers.push(customer);
    faults.push(...faultsOf(lots, customer.id, horizonMs));
    orders.push(...ordersOf(lots, customer.id, horizonMs));
  }
  for (let i = 0; i < lots.int('faults of the run', 0, 2); i += 1) {
    faults.push(databaseFault(lots, 'run', i));
  }
  for (let i = 0; i < lots.int('faults of the world', 0, 2); i += 1) {
    const fault = worldFault(lots, i, horizonMs);
    faults.push(fault);
    // Whoever lost the server's histories starts the period again.
    if (fault.kind === 'temporalForgets') {
      orders.push({ order: 'tick', atMs: fault.atMs + 5 * MINUTE, forMs: 0 });
    }
  }
  orders.push(...startsOf(lots, horizonMs));
  return { seed, customers, faults, orders, healsAtMs: horizonMs };
}

function horizonOf(lots: Lots): number {
  const at = lots.in01('horizon');
  if (at < 0.5) return 30 * MINUTE;
  return at < 0.82 ? 30 * HOUR : 90 * HOUR;
}

function customerOf(lots: Lots, id: string): PlannedCustomer {
  let at = lots.in01(`${id} card`) * 100;
  let paymentMethod: string | null = 'pm_card_visa';
  for (const [weight, card] of CARDS) {
    if (at < weight) {
      paymentMethod = card;
      break;
    }
    at -= weight;
  }
  return {
    id,
    paymentMethod,
    amountMinor: lots.chance(`${id} free`, 0.04) ? 0 : lots.int(`${id} amount`, 50, 90_000),
    currency: lots.pick(`${id} currency`, ['usd', 'eur', 'jpy']),
    hidden: lots.chance(`${id} hidden`, 0.03),
  };
}

function faultsOf(lots: Lots, customer: string, horizonMs: number): Fault[] {
  const faults: Fault[] = [];
  for (let i = 0; i < lots.int(`${customer} stripe faults`, 0, 3); i += 1) {
    const name = `${customer} stripe ${i}`;
    const kind = lots.pick(`${name} kind`, STRIPE_KINDS);
    faults.push({
      on: 'stripe',
      customer,
      endpoint: lots.pick(`${name} endpoint`, ENDPOINTS),
      nth: lots.int(`${name} nth`, 1, 2),
      times: lots.chance(`${name} many`, 0.25) ? lots.int(`${name} times`, 2, 12) : 1,
      kind,
      ms: lots.span(`${name} ms`, SECOND, kind === 'lateSuccess500' ? 4 * MINUTE : 100 * SECOND),
    });
  }
  for (let i = 0; i < lots.int(`${customer} database faults`, 0, 2); i += 1) {
    faults.push(databaseFault(lots, customer, i));
  }
  for (let i = 0; i < lots.int(`${customer} activity faults`, 0, 2); i += 1) {
    faults.push(activityFault(lots, `${customer} activity ${i}`, { customer, horizonMs }));
  }
  return faults;
}

function databaseFault(lots: Lots, customer: string, i: number): DatabaseFault {
  const name = `${customer} database ${i}`;
  return {
    on: 'database',
    customer,
    nth: lots.int(`${name} nth`, 1, 16),
    kind: lots.pick(`${name} kind`, DATABASE_KINDS),
  };
}

function activityFault(
  lots: Lots,
  name: string,
  of: { customer: string; horizonMs: number },
): ActivityFault {
  return {
    on: 'activity',
    customer: of.customer,
    activity: lots.pick(`${name} activity`, ACTIVITIES),
    nth: lots.int(`${name} nth`, 1, 2),
    kind: lots.pick(`${name} kind`, ['twice', 'resultLost', 'killed', 'frozen', 'frozen']),
    call: lots.int(`${name} call`, 1, 6),
    when: lots.pick(`${name} when`, ['before', 'after']),
    forMs: lots.span(`${name} frozen`, 3 * SECOND, of.horizonMs),
  };
}

function worldFault(lots: Lots, i: number, horizonMs: number): WorldFault {
  const name = `world ${i}`;
  const kind: WorldFault['kind'] = lots.pick(`${name} kind`, [
    'databaseDown',
    'stripeDown',
    'stripeDown',
    'workerKilled',
    'workerKilled',
    'temporalForgets',
  ]);
  return {
    on: 'world',
    kind,
    // Most of what can be hit is under way in the first seconds.
    atMs: lots.chance(`${name} early`, 0.6)
      ? lots.span(`${name} at`, 100, 20 * SECOND)
      : lots.span(`${name} at`, SECOND, horizonMs),
    // Whoever waits for the database asks every ten seconds; longer teaches nothing new.
    forMs: lots.span(`${name} for`, SECOND, kind === 'databaseDown' ? 5 * MINUTE : horizonMs * 0.9),
  };
}

function ordersOf(lots: Lots, customer: string, horizonMs: number): Order[] {
  const orders: Order[] = [];
  const at = (name: string): number => lots.span(`${customer} ${name}`, 200, horizonMs);
  for (let i = 0; i < lots.int(`${customer} reruns`, 0, 2); i += 1) {
    const requestId = `rerun-${customer}-${i}`;
    const atMs = at(`rerun ${i}`);
    const order = lots.chance(`${customer} ${i} signal`, 0.3) ? 'rerunSignal' : 'rerun';
    orders.push({ order, customer, requestId, atMs });
    if (lots.chance(`${customer} ${i} again`, 0.4)) {
      orders.push({
        order,
        customer,
        requestId,
        atMs: atMs + lots.int(`${requestId} gap`, 0, 3000),
      });
    }
    if (lots.chance(`${customer} ${i} card`, 0.6)) {
      const paymentMethod = lots.pick(`${customer} ${i} which`, [
        'pm_card_visa',
        'pm_card_mastercard',
        'pm_card_chargeDeclinedExpiredCard',
      ]);
      orders.push({ order: 'newCard', customer, paymentMethod, atMs: Math.max(0, atMs - 100) });
    }
  }
  for (let i = 0; i < lots.int(`${customer} hints`, 0, 2); i += 1) {
    orders.push({ order: 'hint', customer, atMs: at(`hint ${i}`) });
  }
  if (lots.chance(`${customer} amount changes`, 0.15)) {
    orders.push({ order: 'doubleAmount', customer, atMs: at('amount') });
  }
  if (lots.chance(`${customer} canceled`, 0.06)) {
    orders.push({ order: 'cancelIntent', customer, atMs: at('cancel') });
  }
  return orders;
}

function startsOf(lots: Lots, horizonMs: number): Order[] {
  const orders: Order[] = [];
  if (lots.chance('second schedule', 0.3)) orders.push({ order: 'tick', atMs: 0, forMs: 0 });
  if (lots.chance('manual', 0.3)) {
    orders.push({ order: 'manual', atMs: lots.int('manual at', 0, 4000), forMs: 0 });
  }
  if (lots.chance('backfill', 0.3)) {
    orders.push({ order: 'tick', atMs: lots.span('backfill at', SECOND, horizonMs), forMs: 0 });
  }
  if (lots.chance('pause', 0.12)) {
    const atMs = lots.span('pause at', 100, 10 * SECOND);
    orders.push({ order: 'pauseAndResume', atMs, forMs: lots.span('pause for', SECOND, HOUR) });
  }
  return orders;
}
