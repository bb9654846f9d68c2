import type {
  ChargeOutcome,
  ChargeResult,
  OpenBecause,
  ReconcileAnswer,
} from '../domain/charge.ts';
import { FAILURES } from '../domain/failures.ts';
import type { SlotRef } from '../domain/ids.ts';
import { noteAbsence } from '../db/absence.ts';
import { noteUnknown, reopenReviewed } from '../db/reviews.ts';
import type { ChargeFacts } from '../db/sends.ts';
import { LookupFailed, type PaymentIntentFacts } from '../payments/gateway.ts';
import type { ActivityDeps } from './deps.ts';
import { readFacts, settledBefore, type ChargeOrder } from './charge.ts';
import { tryAgain } from './errors.ts';
import { declineAmong, findIntent } from './find-intent.ts';
import { freezeGeneration } from './frozen.ts';
import { readIntent } from './read-intent.ts';

/** An outcome that stays unknown this long after the first send goes to a person. */
const REVIEW_AFTER_HOURS = 72;
/** Bank debits take up to two weeks; `processing` is an answer, only not the last one. */
const REVIEW_PROCESSING_AFTER_HOURS = 21 * 24;

/** Whether a look may go on to open the next generation, or only reads and records. */
type Reach = 'mayOpen' | 'readOnly';

/**
 * Asks Stripe what became of a slot's current generation, by reads only: the PaymentIntent when its id
 * is known, else the customer's intents since the first send, matched by metadata, amount and currency,
 * else events. Stripe showing no effect twice, a quiet time apart, is proof of absence and opens the next
 * generation. A look-up that fails is tried again and never read as "not there". Safe to run any number
 * of times, and by two at once.
 */
export async function reconcile(deps: ActivityDeps, order: ChargeOrder): Promise<ReconcileAnswer> {
  const facts = await readFacts(deps, order);
  // An earlier try of this activity proved the absence, and its answer was lost.
  if (isNextOf(facts, order.generation)) return goOn(facts);
  const known = settledBefore(facts, order.generation);
  if (known !== null) return { kind: 'settled', charge: known };
  const answer = await ask(deps, facts, 'mayOpen');
  if (answer.kind === 'resumable' && facts.state === 'in_review') {
    await reopenReviewed(deps.db, order, answer.generation);
  }
  return answer;
}

/**
 * Looks at a slot, whatever its state, and sends nothing and opens nothing: what an event or the sweep of a
 * stopped run calls for. For a slot that was refused, or whose key waits to be sent, only a success is news.
 * Twice: the same answer.
 */
export async function look(deps: ActivityDeps, slot: SlotRef): Promise<ReconcileAnswer> {
  const facts = await readFacts(deps, slot);
  if (facts.state === 'claimed' && !facts.confirm.sentBefore) return lookUnsent(deps, facts);
  const refused = refusedBefore(facts);
  if (refused === null) {
    const known = settledBefore(facts, facts.generation);
    return known === null ? ask(deps, facts, 'readOnly') : { kind: 'settled', charge: known };
  }
  const found = await ask(deps, facts, 'readOnly');
  if (found.kind === 'settled' && found.charge.result.outcome === 'charged') return found;
  return { kind: 'settled', charge: outcomeOf(facts, refused) };
}

/** What was not sent cannot have been refused: a refusal that Stripe shows is of an earlier generation, or not ours. */
async function lookUnsent(deps: ActivityDeps, facts: ChargeFacts): Promise<ReconcileAnswer> {
  const found = await ask(deps, facts, 'readOnly');
  if (found.kind === 'settled' && found.charge.result.outcome === 'charged') return found;
  return { kind: 'resumable', generation: facts.generation, because: 'neverSent' };
}

/** The refusal a slot stands at, or null. */
function refusedBefore(facts: ChargeFacts): ChargeOutcome | null {
  const reason = facts.reason ?? 'unknown';
  if (facts.state === 'blocked') return { outcome: 'blocked', reason, advice: '' };
  if (facts.state !== 'declined' && facts.state !== 'misconfigured') return null;
  return settledBefore(facts, facts.generation)?.result ?? null;
}

async function ask(deps: ActivityDeps, facts: ChargeFacts, reach: Reach): Promise<ReconcileAnswer> {
  const resolved = isResolvedAbsent(facts);
  if (!resolved && facts.paymentIntentId === null && !facts.create.sentBefore) {
    return { kind: 'resumable', generation: facts.generation, because: 'neverSent' };
  }
  try {
    if (resolved) return await askAfterVerdict(deps, facts);
    const intent = await findIntent(deps, facts);
    if (intent === null) return await nothingFound(deps, facts, reach);
    return await answerFor(deps, { facts, intent, reach });
  } catch (error) {
    if (!(error instanceof LookupFailed)) throw error;
    // What a person said stays to be read.
    if (!resolved) await note(deps, facts, { reason: 'look_up_failed', because: 'cannotTell' });
    throw tryAgain(FAILURES.chargeIndeterminate, error.message);
  }
}

/** A person has closed the generation as absent, and nobody has ordered a rerun. */
function isResolvedAbsent({ state, confirm }: ChargeFacts): boolean {
  return (state === 'indeterminate' || state === 'in_review') && !confirm.open;
}

/** Only a success contradicts a person: everything else is left as they said, until a rerun is ordered. */
async function askAfterVerdict(deps: ActivityDeps, facts: ChargeFacts): Promise<ReconcileAnswer> {
  const asSaid: ReconcileAnswer = {
    kind: 'unknown',
    reason: facts.reason ?? 'resolved_absent',
    because: 'cannotTell',
  };
  const intent = await findIntent(deps, facts);
  const reading = intent === null ? null : readIntent(facts, intent);
  if (reading?.kind !== 'settled' || reading.outcome.outcome !== 'charged') return asSaid;
  return { kind: 'settled', charge: outcomeOf(facts, reading.outcome) };
}

/** No intent carries the key: inside the window the same key is safe, it creates or brings the lost reply. */
async function nothingFound(
  deps: ActivityDeps,
  facts: ChargeFacts,
  reach: Reach,
): Promise<ReconcileAnswer> {
  if (facts.create.windowOpen && !facts.create.spent) return sameKey(facts);
  return absence(deps, { facts, reach, key: facts.create.key, sees: 'no_payment_intent' });
}

async function answerFor(
  deps: ActivityDeps,
  seen: { facts: ChargeFacts; intent: PaymentIntentFacts; reach: Reach },
): Promise<ReconcileAnswer> {
  const { facts, intent, reach } = seen;
  const reading = readIntent(facts, intent);
  if (reading.kind === 'settled') {
    const { outcome } = reading;
    if (outcome.outcome !== 'indeterminate') {
      return { kind: 'settled', charge: outcomeOf(facts, outcome) };
    }
    const processing = ['processing', 'requires_action', 'requires_capture'].includes(
      intent.status,
    );
    const because = processing ? 'stillProcessing' : 'cannotTell';
    return unknown(deps, facts, { reason: outcome.reason, because });
  }
  if (!facts.confirm.sentBefore) {
    return { kind: 'resumable', generation: facts.generation, because: 'neverSent' };
  }
  if (facts.confirm.windowOpen && !facts.confirm.spent) return sameKey(facts);
  if (reading.kind === 'ambiguous') {
    const declined = await declineAmong(deps, facts, intent);
    if (declined !== null) return { kind: 'settled', charge: outcomeOf(facts, declined) };
  }
  return absence(deps, { facts, reach, key: facts.confirm.key, sees: intent.status });
}

/**
 * Stripe shows no effect of a key that must not be sent again. Proof needs two such reads; until then, and
 * for a reader that may not open anything, the outcome is unknown.
 */
async function absence(
  deps: ActivityDeps,
  read: { facts: ChargeFacts; reach: Reach; key: string; sees: string },
): Promise<ReconcileAnswer> {
  const { facts, reach, key, sees } = read;
  const { slot, generation } = facts;
  const answer = await noteAbsence(deps.db, slot, {
    generation,
    key,
    sees,
    quietMs: deps.absenceQuietMs,
    freezeNext: reach === 'mayOpen' ? (item) => freezeGeneration(deps, slot, item) : null,
  });
  if (answer.kind === 'proven') {
    return { kind: 'resumable', generation: answer.generation, because: 'absent' };
  }
  if (answer.kind === 'movedOn' && reach === 'mayOpen') return afterMove(deps, facts);
  const reason = `no_effect_seen: ${sees}`;
  return unknown(deps, facts, { reason, because: 'absentNotProven' });
}

/** Somebody was faster, or the answer to our own commit was lost: the slot's row says how it stands. */
async function afterMove(deps: ActivityDeps, before: ChargeFacts): Promise<ReconcileAnswer> {
  const now = await readFacts(deps, before.slot);
  if (isNextOf(now, before.generation)) return goOn(now);
  const known = now.generation === before.generation ? settledBefore(now, now.generation) : null;
  if (known !== null) return { kind: 'settled', charge: known };
  return { kind: 'unknown', reason: 'slot_moved_on', because: 'cannotTell' };
}

/** Whether the generation after this one is open and waits to be sent. */
function isNextOf(facts: ChargeFacts, generation: number): boolean {
  return facts.state === 'claimed' && facts.generation === generation + 1;
}

function goOn({ generation }: ChargeFacts): ReconcileAnswer {
  return { kind: 'resumable', generation, because: 'absent' };
}

interface Unknown {
  readonly reason: string;
  readonly because: OpenBecause;
}

async function unknown(
  deps: ActivityDeps,
  facts: ChargeFacts,
  open: Unknown,
): Promise<ReconcileAnswer> {
  await note(deps, facts, open);
  return { kind: 'unknown', ...open };
}

async function note(deps: ActivityDeps, facts: ChargeFacts, open: Unknown): Promise<void> {
  await noteUnknown(deps.db, facts.slot, {
    generation: facts.generation,
    reason: open.reason,
    reviewAfterHours:
      open.reason === 'processing' ? REVIEW_PROCESSING_AFTER_HOURS : REVIEW_AFTER_HOURS,
  });
}

function sameKey(facts: ChargeFacts): ReconcileAnswer {
  return { kind: 'resumable', generation: facts.generation, because: 'sameKey' };
}

function outcomeOf(facts: ChargeFacts, result: ChargeOutcome): ChargeResult {
  return { generation: facts.generation, result, answer: null };
}
