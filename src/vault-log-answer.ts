import { NOT_SENT } from './db/vault-ledger.ts';
import type { LogRow } from './db/vault-log.ts';

/** What was asked for; only used to say so when nothing was found. */
export interface LogQuestion {
  readonly keyId?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly customerId?: string | undefined;
  readonly period?: string | undefined;
}

/** All requests under one idempotency key of one vault key, oldest first. */
interface Sent {
  readonly idempotencyKey: string | null;
  readonly forwarded: readonly LogRow[];
  readonly refused: readonly LogRow[];
}

/**
 * Answers "did it go out twice, or did the retry never reach the network?" in one sentence. Pure: the same rows, in
 * any order, give the same answer.
 */
export function answerLog(rows: readonly LogRow[], asked: LogQuestion): string {
  if (rows.length === 0)
    return `Never reached the vault: no request is known${describeQuestion(asked)}.`;
  const oldestFirst = rows.toSorted((a, b) => a.at.getTime() - b.at.getTime());
  const sends = oldestFirst.filter(({ method }) => method !== 'GET');
  if (sends.length === 0)
    return `Nothing was sent: ${count(rows.length, 'request')}, all of them only read.`;
  // By key first: a repeat that was refused knows neither customer nor reservation, its key does.
  const keys = [...groupBy(sends, keyOf).values()];
  const things = [...groupBy(keys, thingOf).values()].map((of) => of.map((rows) => sentOf(rows)));
  const [first] = things;
  if (things.length > 1 || first === undefined) return answerMany(things);
  const [only] = first;
  return first.length === 1 && only !== undefined ? answerKey(only) : answerThing(first);
}

/** One idempotency key: how often it left, and which of those Stripe executed. */
function answerKey({ forwarded, refused }: Sent): string {
  const [first] = forwarded;
  if (first === undefined) return answerRefused(refused);
  return sentence([
    forwarded.length === 1
      ? `It went out once, at ${time(first)}${isKnown(first) ? ': ' : ', and nobody knows what became of it: '}${outcome(first)}`
      : `It went out ${times(forwarded.length)} under one key: ${executedOf(forwarded)}`,
    settledSince(forwarded),
    refusedBeside(refused),
  ]);
}

/** Which of several sends of one key Stripe executed, as far as its answers say. */
function executedOf(forwarded: readonly LogRow[]): string {
  const own = forwarded.filter((row) => row.answer?.replayed !== true && isFinal(row));
  const saved = forwarded.filter((row) => row.answer?.replayed === true);
  const savedText =
    saved.length === 0 ? '' : `, and answered ${number(saved.length)} with its saved reply`;
  if (own.length > 1)
    return `Stripe says of ${own.length} of them that it executed them, which one key does not allow (${own.map((row) => outcome(row)).join('; ')})`;
  const [executed] = own;
  if (executed !== undefined) {
    const place = ordinal(forwarded.indexOf(executed) + 1);
    const open = forwarded.filter((row) => row !== executed && !isKnown(row)).length;
    const openText = open === 0 ? '' : `, and ${number(open)} got no answer and did nothing`;
    return `Stripe executed the ${place} (${outcome(executed)})${savedText}${openText}`;
  }
  if (saved.length > 0)
    return `Stripe executed one whose reply was lost, and answered ${saved.length === 1 ? 'another' : `${saved.length} more`} with its saved reply (${outcome(saved[0])})`;
  return `nobody knows what became of it (${outcome(forwarded.at(-1))})`;
}

/** Several keys for one customer and period, or for one payment. */
function answerThing(keys: readonly Sent[]): string {
  const forwarded = keys.flatMap((key) => key.forwarded);
  const refused = keys.flatMap((key) => key.refused);
  if (forwarded.length === 0) return answerRefused(refused);
  const sentKeys = keys.filter((key) => key.forwarded.length > 0).length;
  const repeats = forwarded.length - sentKeys;
  return sentence([
    paymentsOf(forwarded, sentKeys),
    repeats === 0
      ? null
      : `${count(repeats, 'request')} only repeated a key, which Stripe executes once`,
    refusedBeside(refused),
  ]);
}

function paymentsOf(forwarded: readonly LogRow[], sentKeys: number): string {
  const payments = reservationsOf(forwarded).size;
  const spent = spentOf(forwarded).size;
  if (payments === 0)
    return `${count(forwarded.length, 'request')} without an amount went out under ${count(sentKeys, 'key')}, and no payment was started`;
  if (payments === 1) return `It went out once: one payment, ${onePayment(forwarded, spent > 0)}`;
  const verdict =
    spent > 1
      ? `${spent} of them succeeded: money was taken ${times(spent)}`
      : spent === 1
        ? 'one of them succeeded: money was taken once'
        : 'none of them is known to have succeeded';
  return `It went out ${times(payments)}: ${payments} payments under different keys, and ${verdict}`;
}

/** How far the one payment came; held ones are open until Stripe or a person ends them. */
function onePayment(forwarded: readonly LogRow[], spent: boolean): string {
  const keys = new Set(forwarded.map((row) => row.idempotencyKey)).size;
  const under = keys === 1 ? 'in one step' : `in ${keys} steps with a key each`;
  if (spent) return `${under}, and it succeeded: money was taken once`;
  const last = forwarded.at(-1);
  if (last?.reservation?.state === 'released')
    return `${under}, and no money was taken (${outcome(last)})`;
  return last !== undefined && isKnown(last)
    ? `${under}, and it is still open (${last.reservation?.reason ?? 'no reservation'})`
    : `${under}, and nobody knows yet whether money was taken (${outcome(last)})`;
}

/** More than one customer or payment. */
function answerMany(things: readonly (readonly Sent[])[]): string {
  const counts = { never: 0, once: 0, twice: 0, taken: 0, doubleTaken: 0, open: 0 };
  for (const keys of things) {
    const forwarded = keys.flatMap((key) => key.forwarded);
    const spent = spentOf(forwarded).size;
    if (forwarded.length === 0) counts.never += 1;
    else if (reservationsOf(forwarded).size > 1) counts.twice += 1;
    else counts.once += 1;
    if (spent > 0) counts.taken += 1;
    if (spent > 1) counts.doubleTaken += 1;
    if (forwarded.some((row) => row.reservation?.state === 'held')) counts.open += 1;
  }
  return sentence([
    counts.twice === 0
      ? `Of ${things.length} charges none went out twice`
      : `Of ${things.length} charges ${counts.twice} went out more than once under different keys, and ${counts.doubleTaken} took money more than once`,
    `${counts.once} went out once`,
    counts.never === 0 ? null : `${counts.never} never reached the network, refused here`,
    `money was taken for ${counts.taken}`,
    counts.open === 0 ? null : `${counts.open} still open`,
  ]);
}

function answerRefused(refused: readonly LogRow[]): string {
  return `Refused here, never forwarded: ${count(refused.length, 'request')} (${codes(refused)}), and nothing reached Stripe.`;
}

function refusedBeside(refused: readonly LogRow[]): string | null {
  if (refused.length === 0) return null;
  return `${count(refused.length, 'more request')} never reached the network, refused here (${codes(refused)})`;
}

/** What a look at Stripe found after answers that said nothing. */
function settledSince(forwarded: readonly LogRow[]): string | null {
  if (forwarded.some((row) => isKnown(row))) return null;
  switch (forwarded.at(-1)?.reservation?.state) {
    case 'spent':
      return 'a later look at Stripe found that it succeeded';
    case 'released':
      return 'a later look at Stripe found that no money was taken';
    case 'held':
      return 'its sum stays reserved until a look at Stripe says more (chargeonce vault sweep)';
    case undefined:
      return null;
  }
}

/** Stripe executed something for it and said so: a 2xx or a refusal that it saves. */
function isFinal(row: LogRow): boolean {
  const status = row.answer?.status ?? null;
  return status !== null && (status < 300 || status === 402);
}

/** Somebody knows what became of it: Stripe answered, and not that it does not know itself. */
function isKnown(row: LogRow): boolean {
  const status = row.answer?.status ?? null;
  return status !== null && status < 500 && status !== 409;
}

function outcome(row: LogRow | undefined): string {
  const answer = row?.answer ?? null;
  if (answer === null) return 'no answer has been written down';
  const { status, error, stripeRequestId } = answer;
  if (status === null) return `the reply was lost, ${error ?? 'nobody knows why'}`;
  const saved = answer.replayed ? ' with its saved reply' : '';
  return `Stripe answered ${status}${saved}${stripeRequestId === null ? '' : `, ${stripeRequestId}`}`;
}

function reservationsOf(rows: readonly LogRow[]): Set<number> {
  return new Set(rows.flatMap(({ reservation }) => (reservation === null ? [] : [reservation.id])));
}

function spentOf(rows: readonly LogRow[]): Set<number> {
  return reservationsOf(
    rows.filter((row) => row.answer?.effect === 'spent' || row.reservation?.state === 'spent'),
  );
}

function sentOf(rows: readonly LogRow[]): Sent {
  return {
    idempotencyKey: rows[0]?.idempotencyKey ?? null,
    forwarded: rows.filter((row) => leftHere(row)),
    refused: rows.filter((row) => !leftHere(row)),
  };
}

/** Whether bytes of it have left the vault, as far as it knows. */
function leftHere({ decision, answer }: LogRow): boolean {
  return decision === 'forward' && answer?.error !== NOT_SENT;
}

/** What can be charged once: a customer's period; where the client names none, a payment; else the key by itself. */
function thingOf(rows: readonly LogRow[]): string {
  const named = rows.find(({ customerId }) => customerId !== null);
  if (named !== undefined)
    return JSON.stringify(['slot', named.namespace, named.period, named.customerId]);
  const reserved = rows.find(({ reservation }) => reservation !== null)?.reservation ?? null;
  if (reserved !== null) return JSON.stringify(['payment', reserved.id]);
  const [any] = rows;
  return any === undefined ? '' : JSON.stringify(['key', keyOf(any)]);
}

function keyOf(row: LogRow): string {
  return JSON.stringify([row.keyId, row.idempotencyKey ?? row.requestId]);
}

function groupBy<T>(rows: readonly T[], nameOf: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const name = nameOf(row);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [row]);
    else group.push(row);
  }
  return groups;
}

function describeQuestion(asked: LogQuestion): string {
  const parts = [
    asked.idempotencyKey === undefined ? null : `with the idempotency key ${asked.idempotencyKey}`,
    asked.customerId === undefined ? null : `for the customer ${asked.customerId}`,
    asked.period === undefined ? null : `in ${asked.period}`,
    asked.keyId === undefined ? null : `under the vault key ${asked.keyId}`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? '' : ` ${parts.join(' ')}`;
}

function sentence(parts: readonly (string | null)[]): string {
  return `${parts.filter((part) => part !== null).join('; ')}.`;
}

function codes(rows: readonly LogRow[]): string {
  return [
    ...new Set(rows.map((row) => (row.decision === 'forward' ? NOT_SENT : row.decision))),
  ].join(', ');
}

function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`;
}

function number(n: number): string {
  return n === 1 ? 'one' : String(n);
}

function times(n: number): string {
  return n === 2 ? 'twice' : `${n} times`;
}

function ordinal(n: number): string {
  return ['first', 'second', 'third'][n - 1] ?? `${n}th`;
}

function time(row: LogRow): string {
  return row.at.toISOString();
}
