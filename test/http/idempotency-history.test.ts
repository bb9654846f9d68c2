import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  PostgresIdempotencyStore,
  type IdempotencyStore,
} from '../../src/http/idempotency/index.ts';
import { postgresStore } from '../support/idempotent-app.ts';
import {
  describeHistory,
  isLinearizable,
  recordHistory,
  type Call,
} from '../support/idempotent-history.ts';
import { MemoryIdempotencyStore, type MemoryRules } from '../support/idempotent-memory-store.ts';

const HISTORIES = 100;
const MOST_HISTORIES = 10 * HISTORIES;
/** recorded at once, each on a key of its own */
const BATCH = 5;

let database: Awaited<ReturnType<typeof postgresStore>>;
beforeAll(async () => {
  database = await postgresStore();
});
afterAll(() => database.close());

type History = readonly Call[];

/** The histories of some keys, recorded at once. */
function recordBatch(store: IdempotencyStore, name: string): Promise<readonly History[]> {
  return Promise.all(Array.from({ length: BATCH }, (_, n) => recordHistory(store, `${name} ${n}`)));
}

/** So many, and more until each answer was given often: how often depends on what else the machine does. */
async function record(store: IdempotencyStore, name: string): Promise<readonly History[]> {
  const histories: History[] = [];
  for (let n = 0; n < MOST_HISTORIES; n += BATCH) {
    if (n >= HISTORIES && rareOf(histories).length === 0) break;
    histories.push(...(await recordBatch(store, `${name} ${n}`)));
  }
  return histories;
}

/** Records until a history cannot be explained. The rarest bug below shows in about one of twenty. */
async function isSeenThrough(store: IdempotencyStore): Promise<boolean> {
  for (let n = 0; n < 5 * HISTORIES; n += BATCH) {
    const histories = await recordBatch(store, `broken ${n}`);
    if (!histories.every(isLinearizable)) return true;
  }
  return false;
}

/** How often each answer was given: a history in which nothing happens proves nothing. */
function tally(histories: readonly History[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { step, said } of histories.flat()) {
    const what = `${step.kind} ${said === null ? 'unknown' : (said.text.split(' ')[0] ?? '')}`;
    counts[what] = (counts[what] ?? 0) + 1;
  }
  return counts;
}

const OFTEN = [
  'claim claimed',
  'claim takenOver',
  'claim inFlight',
  'claim interrupted',
  'claim mismatch',
  'claim stored',
  'claim unknown',
  'complete stored',
  'complete lost',
  'complete unknown',
  'renew renewed',
  'renew lost',
  'resolve resolved',
  'resolve notInterrupted',
];

/** Answers that were hardly ever given. */
function rareOf(histories: readonly History[]): readonly string[] {
  const counts = tally(histories);
  return OFTEN.filter((what) => (counts[what] ?? 0) < 10);
}

/** What is wrong with them: one that cannot be explained, or an answer that was hardly ever given. */
function problemsOf(histories: readonly History[]): readonly string[] {
  return [
    ...histories.filter((calls) => !isLinearizable(calls)).map(describeHistory),
    ...rareOf(histories).map((what) => `too few: ${what}`),
  ];
}

/** A store whose steps take a while to be reached and to be answered, so that others come between. */
function slowly(store: IdempotencyStore): IdempotencyStore {
  return new Proxy(store, {
    get: (target, name: keyof IdempotencyStore) => {
      const call: unknown = Reflect.get(target, name);
      return async (...args: readonly unknown[]) => {
        for (let turns = Math.random() * 3; turns > 0; turns -= 1) await nextTurn();
        const result: unknown =
          typeof call === 'function' ? await Reflect.apply(call, target, args) : null;
        for (let turns = Math.random() * 3; turns > 0; turns -= 1) await nextTurn();
        return result;
      };
    },
  });
}

describe('what clients do to one key at random', () => {
  it('happens in PostgreSQL as if it had happened one after another', async () => {
    expect(problemsOf(await record(database.store, 'postgres'))).toEqual([]);
  });

  it('happens in memory as if it had happened one after another', async () => {
    const store = slowly(new MemoryIdempotencyStore());
    expect(problemsOf(await record(store, 'memory'))).toEqual([]);
  });
});

const BUGS: readonly (readonly [bug: string, rules: Partial<MemoryRules>])[] = [
  ['takes an answer from whoever gives one', { mayWrite: ({ response }) => response === null }],
  [
    'keeps the last answer, not the first',
    { mayWrite: ({ holder, fence }, hold) => holder === hold.holder && fence === hold.fence },
  ],
  [
    'takes over from a holder that is there',
    { mayTakeOver: (_record, { takeover }) => takeover === 'rerun' },
  ],
  [
    'takes over where it may not',
    { mayTakeOver: ({ leaseUntilMs }, _claim, now) => leaseUntilMs <= now },
  ],
  ['has one fence for all holders', { nextFence: ({ fence }) => fence }],
  ['compares no requests', { isSameRequest: () => true }],
  ['gives back what another one holds', { mayGiveBack: ({ response }) => response === null }],
  ['gives back what is answered', { mayGiveBack: ({ holder }, name) => holder === name }],
  ['resolves what is held', { mayResolve: ({ response }) => response === null }],
  ['answers for ever', { isOver: () => false }],
];

describe('a history', () => {
  it.each(BUGS)('shows a store that %s', async (_bug, rules) => {
    expect(await isSeenThrough(slowly(new MemoryIdempotencyStore(rules)))).toBe(true);
  });

  it('shows a database that takes an answer without its fence', async () => {
    const store = new PostgresIdempotencyStore({
      query: (text, values) =>
        database.pool.query(
          text.includes('SET state')
            ? text.replace('holder = $4 AND fence = $5', '$4::uuid IS NOT NULL AND $5::bigint > 0')
            : text,
          values,
        ),
    });
    expect(await isSeenThrough(store)).toBe(true);
  });
});
