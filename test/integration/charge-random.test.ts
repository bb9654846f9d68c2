import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ActivityDeps } from '../../src/activities/deps.ts';
import { decideRerun } from '../../src/activities/run.ts';
import { planRun } from '../../src/db/runs.ts';
import type { RunRef, SlotRef } from '../../src/domain/ids.ts';
import {
  attend,
  insertCustomers,
  runRef,
  slotRef,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { checkInvariants } from '../support/invariants.ts';

const SEEDS = seeds();
const PEOPLE = 24;
let engine: Engine;

/** CHARGE_SEEDS=100-140 looks further than CI does; a seed that fails reproduces its faults. */
function seeds(): readonly number[] {
  const [from = 1, to = 3] = (process.env['CHARGE_SEEDS'] ?? '1-3').split('-').map(Number);
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

beforeAll(async () => {
  engine = await startEngine({ poolSize: 30 });
  await insertCustomers(
    engine.db,
    Array.from({ length: PEOPLE }, (_, i) => ({
      id: `r${i}`,
      amountMinor: 1000 + i,
      paymentMethod: i % 6 === 5 ? 'pm_card_visa_chargeDeclined' : 'pm_card_visa',
    })),
  );
});
afterAll(() => engine.close());

/** A small seeded generator (mulberry32). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const KINDS = [
  'actThenDrop',
  'resetBefore',
  'status409',
  'status429',
  'status503',
  'truncate',
  'actThen500',
  'wrongContentType',
  'doubleReply',
] as const;

function storm(seed: number): void {
  const luck = random(seed * 7);
  engine.simulator.setFaults({
    seed,
    // Each pass has another mix, so that no fault always hides another one.
    rules: KINDS.filter(() => luck() < 0.7).map((kind) => ({
      id: kind,
      endpoint: '*',
      kind,
      rate: 0.12,
    })),
  });
}

/** Workers that die at any crash point now and then. */
function dying(luck: () => number): ActivityDeps {
  return engine.with({
    crashPoint: async (point) => {
      if (luck() < 0.06) throw new Error(`dies at ${point}`);
    },
  });
}

/** Everything that is due happens to a slot at once: two workers, and now and then an operator. */
async function shake(slot: SlotRef, luck: () => number): Promise<void> {
  const deps = dying(luck);
  const work: Promise<unknown>[] = [attend(deps, slot, 2), attend(deps, slot, 2)];
  if (luck() < 0.4) {
    const requestId = `${slot.period}/${slot.customerId}/${Math.floor(luck() * 3)}`;
    work.push(decideRerun(deps, { ...slot, requestId, operator: 'olga', reason: 'random' }));
  }
  await Promise.allSettled(work);
}

async function aDayPasses(run: RunRef): Promise<void> {
  engine.simulator.advanceClock(25 * 3_600_000);
  await sql`UPDATE charge_generations SET first_sent_at = first_sent_at - interval '25 hours'
    WHERE period = ${run.period} AND first_sent_at IS NOT NULL`.execute(engine.db);
}

describe('random faults, crashes, overlaps, reruns and days that pass', () => {
  it.each(SEEDS)(
    'charge nobody twice and leave no slot that contradicts Stripe (seed %i)',
    async (seed) => {
      const luck = random(seed);
      const run = runRef(
        `20${String(30 + Math.floor(seed / 300)).padStart(2, '0')}-${String((Math.floor(seed / 25) % 12) + 1).padStart(2, '0')}-${String((seed % 25) + 1).padStart(2, '0')}`,
      );
      await planRun(engine.db, run, 'test');
      const slots = Array.from({ length: PEOPLE }, (_, i) => slotRef(`r${i}`, run));
      storm(seed);
      for (let round = 0; round < 3; round += 1) {
        await Promise.all(slots.map((slot) => shake(slot, luck)));
        if (luck() < 0.5) await aDayPasses(run);
        if (luck() < 0.5)
          await engine.db
            .updateTable('customers')
            .set({ payment_method_id: 'pm_card_mastercard' })
            .where('customer_id', 'in', ['r5', 'r11'])
            .execute();
      }
      engine.simulator.setFaults(undefined);
      for (let round = 0; round < 3; round += 1) {
        await Promise.all(slots.map((slot) => attend(engine.deps, slot)));
      }
      const { violations } = await checkInvariants({
        databaseUrl: engine.databaseUrl,
        simulator: engine.simulator,
        temporal: null,
        run,
        // Keys that grew old, and 500s that Stripe repeats for ever, stay unknown in this version.
        mayStayUnknown: slots.map((slot) => slot.customerId),
      });
      expect(violations).toEqual([]);
    },
  );
});
