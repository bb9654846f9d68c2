import type { RequestEntry } from '../../src/simulator/index.ts';

/** One request as it reached Stripe, without what differs from run to run. */
export interface Sent {
  readonly what: string;
  /** K1, K2, … in the order in which keys were first seen; null without one */
  readonly key: string | null;
  /** A1, A2, … of `X-Attempt-Id` */
  readonly attempt: string | null;
  /** what came back: a status, or that nothing did */
  readonly answer: string;
  readonly effect: 'executed' | 'replayed' | 'nothing';
}

/** The requests of a run, in the order in which they ended. */
export function timelineOf(entries: readonly RequestEntry[]): Sent[] {
  const keys = new Map<string, string>();
  const attempts = new Map<string, string>();
  return entries.map((entry) => ({
    what: `${entry.method} ${entry.path.replaceAll(/(pi|ch|cus|evt|re)_[A-Za-z0-9]+/g, '$1_…').replace(/\?.*$/, '?…')}`,
    key: numbered(keys, entry.idempotencyKey, 'K'),
    attempt: numbered(attempts, entry.attemptId, 'A'),
    answer: entry.status === 0 ? 'no answer' : String(entry.status),
    effect: entry.replayed ? 'replayed' : entry.executed ? 'executed' : 'nothing',
  }));
}

function numbered(names: Map<string, string>, value: string | null, letter: string) {
  if (value === null) return null;
  const name = names.get(value) ?? `${letter}${names.size + 1}`;
  names.set(value, name);
  return name;
}

/** The timeline as lines of text, for a page or a terminal. */
export function linesOf(sent: readonly Sent[]): string[] {
  return sent.map(({ what, key, answer, effect }, at) => {
    const took = effect === 'nothing' ? '' : `, ${effect}`;
    return `${String(at + 1).padStart(2)}  ${what}  key ${key ?? '–'}  → ${answer}${took}`;
  });
}
