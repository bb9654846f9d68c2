// Says whether a world ended well. Reads the tables by SQL of its own, Stripe's ledger by metadata, and
// what the wire saw; shares no code with src. Names of invariants as in docs/testing.md.
import type { SimulatedPostgres } from './database.ts';
import type { LedgerEntry } from '../../src/simulator/ledger.ts';
import type { Plan } from './plan.ts';
import { evidenceIsGone, type Outcome } from './world.ts';

interface Slot {
  readonly customer_id: string;
  readonly amount_minor: number;
  readonly currency: string;
  readonly state: string | null;
  readonly generation: number | null;
  readonly payment_intent_id: string | null;
  readonly charge_id: string | null;
}

interface Key {
  readonly idempotency_key: string;
  readonly customer_id: string;
  readonly operation: string;
  readonly generation: number;
  readonly request_body: string;
  readonly created_at: Date;
  readonly first_sent_at: Date | null;
  readonly outcome: string | null;
}

interface Move {
  readonly at: Date;
  readonly xid: string;
  readonly kind: 'slot' | 'rerun';
  readonly customer_id: string;
  readonly was: string | null;
  readonly became: string;
  readonly old_generation: number | null;
  readonly new_generation: number | null;
}

interface Evidence {
  readonly outcome: Outcome;
  readonly slots: readonly Slot[];
  readonly keys: readonly Key[];
  readonly attempts: ReadonlyMap<string, string>;
  readonly moves: readonly Move[];
  readonly audit: readonly {
    customer_id: string | null;
    action: string;
    amount_minor: number | null;
    currency: string | null;
  }[];
  readonly ledger: readonly LedgerEntry[];
  readonly planned: number;
  readonly say: (problem: string) => void;
}

/** A key may be pruned at 24 h and then executes again: nobody sends one this old. */
const LATEST_SEND_MS = 23.1 * 60 * 60 * 1000;

const ARROWS: Readonly<Record<string, readonly string[]>> = {
  claimed: ['sent', 'misconfigured', 'blocked', 'indeterminate'],
  sent: ['charged', 'declined', 'indeterminate', 'blocked', 'misconfigured'],
  charged: [],
  declined: ['claimed', 'charged'],
  misconfigured: ['claimed', 'charged'],
  blocked: ['claimed', 'sent', 'charged'],
  skipped: ['claimed'],
  indeterminate: [
    'charged',
    'declined',
    'misconfigured',
    'blocked',
    'claimed',
    'sent',
    'in_review',
  ],
  in_review: ['charged', 'declined', 'misconfigured', 'claimed'],
};

/** Everything that does not hold, each with the number of its invariant first. */
export async function check(outcome: Outcome, postgres: SimulatedPostgres): Promise<string[]> {
  const problems: string[] = [...outcome.problems];
  const evidence = await read(outcome, postgres, (problem) => problems.push(problem));
  oneSuccess(evidence);
  everySlotEnds(evidence);
  sends(evidence);
  ledgerAgrees(evidence);
  neverDeniesSuccess(evidence);
  sums(evidence);
  arrows(evidence);
  generations(evidence);
  return problems;
}

/** States the slots went through and ended in, for the counts of what was seen. */
export async function statesSeen(postgres: SimulatedPostgres): Promise<readonly string[]> {
  const { rows } = await postgres.pg.query<{ became: string }>(
    `SELECT DISTINCT became FROM harness.journal WHERE kind = 'slot'
     UNION SELECT 'generation ' || least(new_generation, 3) FROM harness.journal WHERE new_generation > 1
     UNION SELECT 'closed as absent' FROM charge_generations WHERE outcome = 'absent' AND first_sent_at IS NOT NULL
     UNION SELECT 'generation rises by ' || s.was FROM harness.journal s WHERE s.new_generation > s.old_generation`,
  );
  return rows.map(({ became }) => became).sort();
}

async function read(
  outcome: Outcome,
  { pg }: SimulatedPostgres,
  say: (problem: string) => void,
): Promise<Evidence> {
  const slots = await pg.query<Slot>(
    `SELECT i.customer_id, i.amount_minor, i.currency, c.state, c.generation, c.payment_intent_id, c.charge_id
     FROM billing_items i LEFT JOIN billing_charges c USING (namespace, period, customer_id) ORDER BY 1`,
  );
  const keys = await pg.query<Key>(
    'SELECT * FROM charge_generations ORDER BY generation, operation',
  );
  const attempts = await pg.query<{ attempt_id: string; idempotency_key: string }>(
    'SELECT attempt_id, idempotency_key FROM charge_attempts',
  );
  const moves = await pg.query<Move>('SELECT * FROM harness.journal ORDER BY id');
  const audit = await pg.query<Evidence['audit'][number]>(
    'SELECT customer_id, action, amount_minor, currency FROM audit_log ORDER BY id',
  );
  const planned = await pg.query<{ n: number }>(
    'SELECT coalesce(sum(customer_count), 0)::integer AS n FROM billing_runs',
  );
  return {
    outcome,
    slots: slots.rows,
    keys: keys.rows,
    attempts: new Map(attempts.rows.map((row) => [row.attempt_id, row.idempotency_key])),
    moves: moves.rows,
    audit: audit.rows,
    ledger: outcome.stripe.ledger(),
    planned: planned.rows[0]?.n ?? 0,
    say,
  };
}

function intentsOf(evidence: Evidence, customer: string): readonly LedgerEntry[] {
  return evidence.ledger.filter((entry) => entry.metadata['chargeonce_customer'] === customer);
}

function successes(entries: readonly LedgerEntry[]) {
  return entries.flatMap((entry) => entry.charges.filter(({ status }) => status === 'succeeded'));
}

/** I1 */
function oneSuccess(evidence: Evidence): void {
  const customers = new Set(evidence.ledger.map((entry) => entry.metadata['chargeonce_customer']));
  for (const customer of customers) {
    if (customer === undefined) {
      evidence.say('I1: Stripe has a PaymentIntent without our metadata');
      continue;
    }
    const intents = intentsOf(evidence, customer);
    const paid = successes(intents).length;
    if (paid > 1) evidence.say(`I1: ${customer} was charged ${paid} times`);
    const confirmed = intents.filter(({ charges }) => charges.length > 0).length;
    if (confirmed > 1)
      evidence.say(`I1: ${confirmed} PaymentIntents of ${customer} were confirmed`);
  }
}

/** I2, I8 */
function everySlotEnds(evidence: Evidence): void {
  const { outcome, slots, say } = evidence;
  const { plan } = outcome;
  if (plan.orders.some(({ order }) => order === 'tick' || order === 'manual')) {
    if (slots.length !== plan.customers.length || evidence.planned !== slots.length) {
      say(
        `I2: ${slots.length} items of ${evidence.planned} planned for ${plan.customers.length} customers`,
      );
    }
  }
  for (const { customer_id: customer, state } of slots) {
    if (state === null) say(`I2: ${customer} has no slot`);
    else if (state === 'claimed' || state === 'sent') say(`I8: ${customer} is left in ${state}`);
    else if ((state === 'indeterminate' || state === 'in_review') && !isGone(plan, customer)) {
      say(`I2: ${customer} ends in ${state} although Stripe could answer`);
    }
  }
}

function isGone(plan: Plan, customer: string): boolean {
  const planned = plan.customers.find(({ id }) => id === customer);
  return planned !== undefined && evidenceIsGone(planned);
}

/** I3 */
function sends(evidence: Evidence): void {
  const { keys, attempts, say } = evidence;
  const byKey = new Map(keys.map((key) => [key.idempotency_key, key]));
  const attemptIds = new Set<string>();
  const firstSent = new Map<string, number>();
  for (const send of evidence.outcome.stripe.sends) {
    const stored = byKey.get(send.key ?? '');
    if (stored === undefined) {
      say(`I3: ${send.customer} sent ${send.path} under a key that is not stored`);
      continue;
    }
    if (stored.customer_id !== send.customer) say(`I3: ${send.customer} sent another's key`);
    if (stored.created_at.getTime() > send.atMs)
      say(`I3: key of ${send.customer} stored after its send`);
    if (stored.first_sent_at === null || stored.first_sent_at.getTime() > send.atMs) {
      say(`I3: ${send.customer} sent before the row said so`);
    }
    if (stored.request_body !== send.body) say(`I3: ${send.customer} sent other bytes than stored`);
    const isConfirm = send.path.endsWith('/confirm');
    if (isConfirm !== (stored.operation === 'confirm')) say(`I3: ${send.customer} mixed its keys`);
    if (send.attemptId === null || attemptIds.has(send.attemptId)) {
      say(`I3: ${send.customer} sent without an attempt id of its own`);
    } else if (attempts.get(send.attemptId) !== stored.idempotency_key) {
      say(`I3: an attempt of ${send.customer} left without being recorded`);
    }
    attemptIds.add(send.attemptId ?? '');
    const first = firstSent.get(stored.idempotency_key) ?? send.atMs;
    firstSent.set(stored.idempotency_key, first);
    // One that was stopped between the question and the send cannot ask again; its intent guards.
    const isOld = send.atMs - first > LATEST_SEND_MS;
    if (isOld && !send.byZombie) say(`I3: ${send.customer} sent a key older than 23 h`);
  }
  for (const { idempotency_key: key, customer_id: customer, operation, generation } of keys) {
    const twins = keys.filter(
      (other) =>
        other.customer_id === customer &&
        other.operation === operation &&
        other.generation === generation,
    );
    if (twins.length > 1 && twins[0]?.idempotency_key === key) {
      say(`I3: ${customer} has ${twins.length} keys of one generation`);
    }
  }
}

/** I4, I5, I13 */
function ledgerAgrees(evidence: Evidence): void {
  const { slots, say, outcome } = evidence;
  for (const slot of slots) {
    const customer = slot.customer_id;
    const intents = intentsOf(evidence, customer);
    const paid = successes(intents);
    if (slot.state === 'charged') {
      const [charge] = paid;
      const intent = intents.find(({ charges }) => charges.some((one) => one === charge));
      if (charge === undefined || intent === undefined) {
        say(`I4: ${customer} is charged here, not at Stripe`);
        continue;
      }
      if (charge.id !== slot.charge_id) say(`I4: ${customer} names another charge`);
      if (intent.paymentIntent !== slot.payment_intent_id)
        say(`I13: ${customer} names another intent`);
      if (charge.amount !== slot.amount_minor || intent.currency !== slot.currency) {
        say(`I5: ${customer} was charged ${charge.amount}, frozen were ${slot.amount_minor}`);
      }
    } else if (paid.length > 0) {
      const mayBeOpen = slot.state === 'in_review' || slot.state === 'indeterminate';
      if (!mayBeOpen || !isGone(outcome.plan, customer)) {
        say(`I4: ${customer} is charged at Stripe and ${slot.state} here`);
      }
    }
    const own = evidence.ledger.find((entry) => entry.paymentIntent === slot.payment_intent_id);
    if (slot.payment_intent_id !== null && own?.metadata['chargeonce_customer'] !== customer) {
      say(`I13: ${customer} keeps an intent that is not its own`);
    }
  }
}

/** I4 and I9, at every step: nobody writes "refused" or opens a generation over a success that was there. */
function neverDeniesSuccess(evidence: Evidence): void {
  for (const move of evidence.moves) {
    const { customer_id: customer, became, at } = move;
    const denies = became === 'declined' || became === 'misconfigured' || became === 'skipped';
    const raises = move.old_generation !== null && move.new_generation !== move.old_generation;
    if (move.kind !== 'slot' || !(denies || raises)) continue;
    for (const { createdAt } of successes(intentsOf(evidence, customer))) {
      // Stripe's times are whole seconds.
      if ((createdAt + 1) * 1000 > at.getTime()) continue;
      evidence.say(`I4: ${customer} became ${became} after Stripe had charged it`);
    }
  }
}

/** I6 */
function sums(evidence: Evidence): void {
  const { slots, audit, say } = evidence;
  const add = (into: Map<string, number>, currency: string, amount: number): void => {
    into.set(currency, (into.get(currency) ?? 0) + amount);
  };
  const charged = new Map<string, number>();
  for (const slot of slots) {
    if (slot.state === 'charged') add(charged, slot.currency, slot.amount_minor);
  }
  const logged = new Map<string, number>();
  for (const entry of audit) {
    if (entry.action === 'slot.charged')
      add(logged, entry.currency ?? '?', entry.amount_minor ?? NaN);
  }
  const taken = new Map<string, number>();
  for (const slot of slots) {
    // What Stripe may not say cannot be in our sums.
    if (slot.state !== 'charged' && isGone(evidence.outcome.plan, slot.customer_id)) continue;
    for (const charge of successes(intentsOf(evidence, slot.customer_id))) {
      add(taken, slot.currency, charge.amount);
    }
  }
  for (const currency of new Set([...charged.keys(), ...logged.keys(), ...taken.keys()])) {
    const [ours, log, stripe] = [charged, logged, taken].map((sum) => sum.get(currency) ?? 0);
    if (ours !== log || ours !== stripe) {
      say(`I6: ${currency}: slots ${ours}, audit log ${log}, Stripe ${stripe}`);
    }
  }
}

/** I7 */
function arrows(evidence: Evidence): void {
  const last = new Map<string, string>();
  for (const { kind, customer_id: customer, was, became } of evidence.moves) {
    if (kind !== 'slot') continue;
    if (was === null) {
      if (last.has(customer)) evidence.say(`I7: the slot of ${customer} was made twice`);
      if (became !== 'claimed' && became !== 'skipped')
        evidence.say(`I7: ${customer} begins as ${became}`);
    } else {
      if (last.get(customer) !== was)
        evidence.say(`I7: ${customer} jumps from ${last.get(customer)} to ${was}`);
      if (was !== became && ARROWS[was]?.includes(became) !== true) {
        evidence.say(`I7: ${customer} goes from ${was} to ${became}`);
      }
      if (was === 'charged') evidence.say(`I7: ${customer} was charged and is written again`);
    }
    last.set(customer, became);
  }
}

/** I9, I11 */
function generations(evidence: Evidence): void {
  const { moves, keys, slots, say } = evidence;
  for (const { customer_id: customer, generation } of slots) {
    let raises = 0;
    for (const move of moves) {
      if (move.kind !== 'slot' || move.customer_id !== customer) continue;
      const { old_generation: before, new_generation: after, was } = move;
      if (before === null || before === after) continue;
      raises += 1;
      const ordered = moves.some(
        (other) => other.kind === 'rerun' && other.xid === move.xid && other.became === 'accepted',
      );
      const closed = keys.find(
        (key) =>
          key.customer_id === customer && key.operation === 'confirm' && key.generation === before,
      );
      const refused = was === 'declined' || was === 'misconfigured';
      if (refused && !ordered) say(`I9: ${customer} got generation ${after} without an order`);
      const final = ['declined', 'misconfigured', 'absent'].includes(closed?.outcome ?? '');
      if (!final)
        say(`I9: ${customer} got generation ${after} while ${before} was ${closed?.outcome}`);
      if (!refused && closed?.outcome !== 'absent') {
        say(`I9: ${customer} got generation ${after} from ${was} without proof`);
      }
    }
    if (generation !== null && generation !== 1 + raises) {
      say(`I9: ${customer} is at generation ${generation} after ${raises} steps`);
    }
  }
}
