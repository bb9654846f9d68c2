import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { storeConformance, type IdempotencyStore } from '../../src/http/idempotency/index.ts';
import { postgresStore } from '../support/idempotent-app.ts';
import { BROKEN_RULES } from '../support/idempotent-broken-rules.ts';
import { MemoryIdempotencyStore } from '../support/idempotent-memory-store.ts';

const CHECKS = storeConformance();
const TOOLS = { shortMs: 5, patienceMs: 10_000 };

let database: Awaited<ReturnType<typeof postgresStore>>;
beforeAll(async () => {
  database = await postgresStore();
});
afterAll(() => database.close());

describe('the store in PostgreSQL', () => {
  it.each(CHECKS)('$name', async ({ run }) => {
    await expect(run(database.store, TOOLS)).resolves.toBeUndefined();
  });
});

describe('a store in memory', () => {
  const store = new MemoryIdempotencyStore();
  it.each(CHECKS)('$name, too', async ({ run }) => {
    await expect(run(store, TOOLS)).resolves.toBeUndefined();
  });
});

/** The checks that a store fails, by name. */
async function failing(store: IdempotencyStore): Promise<readonly string[]> {
  const names: string[] = [];
  for (const { name, run } of CHECKS)
    await run(store, { shortMs: 5, patienceMs: 100 }).catch(() => names.push(name));
  return names;
}

describe('the conformance suite', () => {
  it('has no two checks of one name', () => {
    expect(new Set(CHECKS.map(({ name }) => name)).size).toBe(CHECKS.length);
  });

  it('sees nothing wrong with a store that is right', async () => {
    expect(await failing(new MemoryIdempotencyStore())).toEqual([]);
  });

  it.concurrent.each(BROKEN_RULES)('sees a store that %s', async (_bug, rules, seenBy) => {
    expect(await failing(new MemoryIdempotencyStore(rules))).toContain(seenBy);
  });
});
