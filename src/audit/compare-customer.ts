import type { AuditedCustomer, AuditedSlot } from './database-witness.ts';
import type { Finding, FindingKind, Severity } from './report.ts';
import type { CustomerHistory, ProviderIntent } from './witnesses.ts';

/** Everything the three witnesses have of one customer. */
export interface CustomerCase {
  readonly customerId: string;
  /** null: not in the plan */
  readonly planned: AuditedCustomer | null;
  readonly intents: readonly ProviderIntent[];
  /** null: the history is gone, or Temporal was not asked */
  readonly history: CustomerHistory | null;
  readonly runState: string | null;
  /** false while the provider could not be read: its silence then says nothing */
  readonly providerRead: boolean;
  /** false where only items and slots were read */
  readonly whole: boolean;
}

type Found = readonly [kind: FindingKind, message: string, severity?: Severity];

/**
 * What is wrong with one customer, or nothing. Pure: the same case gives the same findings. Each check
 * looks at one promise, so one broken row may be found by several.
 */
export function compareCustomer(one: CustomerCase): Finding[] {
  const found: Found[] =
    one.planned === null
      ? [...outsidePlan(one), ...chargedTwice(one)]
      : [
          ...chargedTwice(one),
          ...slotChecks(one, one.planned),
          ...(one.providerRead ? providerChecks(one, one.planned) : []),
          ...historyChecks(one, one.planned),
          ...(one.whole ? recordChecks(one.planned) : []),
        ];
  if (found.length === 0) return [];
  const said = sayings(one);
  return found.map(([kind, message, severity = 'disagreement']) => ({
    kind,
    severity,
    customerId: one.customerId,
    message,
    ...said,
  }));
}

function* chargedTwice({ intents, history }: CustomerCase): Generator<Found> {
  const times = intents.reduce((sum, intent) => sum + intent.succeeded.length, 0);
  if (times > 1) {
    yield ['charged_twice', `the provider has ${times} successful charges: ${chargeList(intents)}`];
  }
  const remembered = history?.charges ?? [];
  if (remembered.length > 1) {
    const ids = remembered.map((charge) => charge.chargeId).join(', ');
    yield ['charged_twice', `its histories name ${remembered.length} successful charges: ${ids}`];
  }
}

function* outsidePlan({ intents, history }: CustomerCase): Generator<Found> {
  const moved = intents.some((intent) => intent.succeeded.length > 0 || intent.pending);
  if (moved) yield ['outside_plan', 'charged at the provider without being in the plan'];
  else if (intents.length > 0) {
    yield ['outside_plan', 'has a PaymentIntent without being in the plan; no money moved', 'open'];
  }
  if (history !== null) yield ['outside_plan', 'has a workflow without being in the plan'];
}

function* slotChecks({ runState }: CustomerCase, { slot }: AuditedCustomer): Generator<Found> {
  if (slot === null) {
    if (runState === 'completed')
      yield ['lost', 'in the plan, and the completed run has no slot for it'];
    else yield ['not_reached', 'in the plan, and no slot yet', 'unfinished'];
    return;
  }
  if (slot.state === 'claimed' || slot.state === 'sent') {
    yield ['unfinished', `the slot is ${slot.state}`, 'unfinished'];
  } else if (slot.state === 'indeterminate' || slot.state === 'in_review') {
    yield ['open_outcome', `the slot is ${slot.state}: ${slot.reason ?? 'no reason'}`, 'open'];
  }
}

function* providerChecks(one: CustomerCase, planned: AuditedCustomer): Generator<Found> {
  const { intents } = one;
  const { slot } = planned;
  const succeeded = intents.filter((intent) => intent.succeeded.length > 0);
  if (succeeded.length > 0 && slot?.state !== 'charged') {
    yield [
      'charged_at_provider_only',
      `${chargeList(succeeded)} succeeded; the slot is ${stateOf(slot)}`,
    ];
  }
  if (slot?.state === 'charged') yield* chargedSlotChecks(slot, succeeded);
  for (const intent of succeeded) {
    const problem = itemProblem(intent, planned);
    if (problem !== null) yield ['differs_from_item', `${intent.paymentIntentId}: ${problem}`];
  }
  const confirmed = intents.filter((intent) => intent.confirmed);
  if (confirmed.length > 1) {
    const ids = confirmed.map((intent) => intent.paymentIntentId).join(', ');
    yield ['several_payment_intents', `${ids} were all confirmed`];
  }
  if (!one.whole) return;
  const keys = new Set(planned.generations.map((generation) => generation.key));
  for (const { metadataKey, paymentIntentId } of intents) {
    if (metadataKey !== null && keys.has(metadataKey)) continue;
    yield ['unknown_key', `${paymentIntentId} names the key ${metadataKey ?? '(none)'}`];
  }
}

function* chargedSlotChecks(
  slot: AuditedSlot,
  succeeded: readonly ProviderIntent[],
): Generator<Found> {
  if (succeeded.length === 0) {
    yield [
      'charged_in_database_only',
      `the provider has no successful charge for ${slot.paymentIntentId}`,
    ];
    return;
  }
  const same = succeeded.find((intent) => intent.paymentIntentId === slot.paymentIntentId);
  if (same === undefined) {
    yield [
      'provider_differs',
      `the slot names ${slot.paymentIntentId}, the provider charged ${chargeList(succeeded)}`,
    ];
  } else if (!same.succeeded.some((charge) => charge.chargeId === slot.chargeId)) {
    yield [
      'provider_differs',
      `the slot names ${slot.chargeId}, the provider charged ${chargeList([same])}`,
    ];
  }
}

function itemProblem(intent: ProviderIntent, item: AuditedCustomer): string | null {
  for (const { amountMinor } of intent.succeeded) {
    if (amountMinor !== item.amountMinor)
      return `charged ${amountMinor} instead of ${item.amountMinor}`;
  }
  if (intent.currency !== item.currency)
    return `charged in ${intent.currency} instead of ${item.currency}`;
  if (intent.stripeCustomerId !== item.stripeCustomerId) {
    return `charged ${intent.stripeCustomerId ?? 'no customer'} instead of ${item.stripeCustomerId}`;
  }
  return null;
}

/** The first contradiction only: what follows from it would say the same thing again. */
function* historyChecks({ history }: CustomerCase, planned: AuditedCustomer): Generator<Found> {
  const { slot } = planned;
  if (history === null || slot === null) return;
  const charged = slot.state === 'charged';
  for (const { chargeId, paymentIntentId, amountMinor, currency } of history.charges) {
    const sameCharge = chargeId === slot.chargeId && paymentIntentId === slot.paymentIntentId;
    const sameAmount = amountMinor === planned.amountMinor && currency === planned.currency;
    if (charged && sameCharge && sameAmount) continue;
    const what = `${paymentIntentId} / ${chargeId} for ${amountMinor} ${currency}`;
    yield [
      'history_differs',
      `an activity answered: charged ${what}; the slot says ${slotWords(planned)}`,
    ];
    return;
  }
  if (history.open) return;
  const { returned } = history;
  const byPerson = planned.resolvedCharge !== null && planned.resolvedCharge === slot.chargeId;
  const told = history.charges.length > 0 || returned === 'charged' || byPerson;
  if (charged && !told && !history.partial) {
    yield ['history_differs', 'the slot is charged, and no activity ever answered so'];
    return;
  }
  // An unknown outcome contradicts nothing, and a slot that is not settled has nothing to contradict.
  if (returned === null || returned === 'indeterminate' || !isSettled(slot)) return;
  if (returned !== slot.state) {
    yield ['history_differs', `the workflow returned ${returned}, the slot is ${slot.state}`];
  }
}

function isSettled({ state }: AuditedSlot): boolean {
  return !['claimed', 'sent', 'indeterminate', 'in_review'].includes(state);
}

function* recordChecks(planned: AuditedCustomer): Generator<Found> {
  const { slot, generations } = planned;
  const seen = new Map<string, string>();
  for (const { operation, generation, key, problem } of generations) {
    const which = `${operation} of generation ${generation}`;
    const other = seen.get(which);
    if (other !== undefined) yield ['several_keys', `${which} has the keys ${other} and ${key}`];
    seen.set(which, key);
    if (problem !== null) yield ['frozen_request_differs', `${which}: ${problem}`];
  }
  if (slot === null) return;
  const current = generations.some(
    ({ operation, generation, key }) =>
      operation === 'confirm' && generation === slot.generation && key === slot.key,
  );
  if (slot.state !== 'skipped' && !current) {
    yield ['key_differs', `no confirm of generation ${slot.generation} has the key ${slot.key}`];
  }
  yield* chargedRecordChecks(slot, planned);
}

function* chargedRecordChecks(slot: AuditedSlot, planned: AuditedCustomer): Generator<Found> {
  const charged = slot.state === 'charged';
  const paid = planned.generations.filter((generation) => generation.outcome === 'charged');
  // A success that came after a refusal (confirmed by hand): the refusal stays the answer to our key, and
  // only the log's entry tells it from a row that somebody changed.
  const afterRefusal =
    paid.length === 0 &&
    planned.logged.length === 1 &&
    planned.generations.some(
      ({ operation, generation, outcome }) =>
        operation === 'confirm' &&
        generation === slot.generation &&
        (outcome === 'declined' || outcome === 'misconfigured'),
    );
  const same = (paid.length === 1 && paid[0]?.chargeId === slot.chargeId) || afterRefusal;
  if (charged ? !same : paid.length > 0) {
    const ids = paid.map((generation) => generation.chargeId).join(', ');
    yield [
      'generation_differs',
      `the slot is ${slot.state}, generations charged: ${ids || 'none'}`,
    ];
  }
  const { logged } = planned;
  const [entry] = logged;
  const sameEntry =
    logged.length === 1 &&
    entry?.amountMinor === planned.amountMinor &&
    entry.currency === planned.currency;
  if (charged ? !sameEntry : logged.length > 0) {
    const entries = logged
      .map(({ amountMinor, currency }) => `${amountMinor} ${currency}`)
      .join(', ');
    yield [
      'audit_log_differs',
      `the slot is ${slot.state}, the log has charged: ${entries || 'nothing'}`,
    ];
  }
}

function sayings({ planned, intents, history, providerRead }: CustomerCase) {
  return {
    database: planned === null ? 'not in the plan' : slotWords(planned),
    provider: providerRead ? intentWords(intents) : 'could not be read',
    temporal: history === null ? 'no history' : historyWords(history),
  };
}

function slotWords({ slot, amountMinor, currency }: AuditedCustomer): string {
  if (slot === null) return `no slot for ${amountMinor} ${currency}`;
  const ids = slot.chargeId ?? slot.paymentIntentId;
  return `${slot.state} ${amountMinor} ${currency}${ids === null ? '' : ` ${ids}`}`;
}

function stateOf(slot: AuditedSlot | null): string {
  return slot?.state ?? 'missing';
}

function intentWords(intents: readonly ProviderIntent[]): string {
  if (intents.length === 0) return 'nothing';
  return intents
    .map(({ paymentIntentId, status, succeeded, currency }) => {
      const sums = succeeded.map(({ amountMinor }) => ` ${amountMinor} ${currency}`).join(',');
      return `${paymentIntentId} ${status}${sums}`;
    })
    .join('; ');
}

function historyWords({ charges, returned, open }: CustomerHistory): string {
  const end = open ? 'still open' : `returned ${returned ?? 'nothing'}`;
  const paid = charges.map(
    ({ chargeId, amountMinor, currency }) => `${chargeId} ${amountMinor} ${currency}`,
  );
  return [end, ...paid].join(', ');
}

function chargeList(intents: readonly ProviderIntent[]): string {
  return intents
    .flatMap(({ paymentIntentId, succeeded }) =>
      succeeded.map(
        ({ chargeId }) => `${paymentIntentId}${chargeId === null ? '' : ` (${chargeId})`}`,
      ),
    )
    .join(', ');
}
