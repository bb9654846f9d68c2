import { sql } from 'kysely';
import type { Exhibit } from '../../harness/exhibit.ts';
import type { OursWorld } from '../../harness/ours-world.ts';
import { keysOf } from '../../harness/sends.ts';
import { losesFirst, losingFirstTry } from '../first-try.ts';
import { sendPending as fixed } from './fixed.ts';
import { sendPending as tempting } from './tempting.ts';

/** From Friday evening to Monday morning. */
const WEEKEND_MS = 62 * 3_600_000;
/** How often a key is sent before the weekend: the try, and once more by Stripe's SDK. */
const SENDS_BEFORE = 2;

/** Makes all keys in our database as old as that; there its clock decides. */
async function ageKeys({ database }: OursWorld): Promise<void> {
  await sql`UPDATE charge_generations SET first_sent_at = first_sent_at - ${`${WEEKEND_MS} ms`}::interval
    WHERE first_sent_at IS NOT NULL`.execute(database.db);
}

export const keyAfterADay: Exhibit = {
  number: 28,
  name: 'key-after-a-day',
  room: 'E',
  title: 'a stored key, sent again after the weekend: Stripe has forgotten it',
  rule: 'A key protects for a day. Once it is older, ask Stripe what became of it, and do not send it.',
  harm: 'chargedAgain',
  async tempting(world) {
    const shop = await losingFirstTry(world);
    const outbox = world.customers.map((customer) => ({
      customer,
      idempotencyKey: `${world.period}-${customer.id}`,
      state: 'pending' as const,
    }));
    await tempting(shop, outbox);
    world.stripe.advanceClock(WEEKEND_MS);
    await tempting(shop, outbox);
  },
  async fixed(world) {
    const shop = await losingFirstTry(world);
    const outbox = world.customers.map((customer) => ({
      customer,
      idempotencyKey: `${world.period}-${customer.id}`,
      state: 'pending' as const,
      firstSentAtMs: null,
    }));
    await fixed(shop, outbox, 0);
    world.stripe.advanceClock(WEEKEND_MS);
    await fixed(shop, outbox, WEEKEND_MS);
  },
  async ours(world) {
    let isMonday = false;
    // Both answers are lost; whatever comes next comes on Monday.
    const loses = losesFirst('confirm', async (lost) => {
      if (lost === SENDS_BEFORE) await ageKeys(world);
    });
    await world.wire(async (request, count) => {
      if (keysOf(world, 'confirm').length === SENDS_BEFORE && !isMonday) {
        isMonday = true;
        world.stripe.advanceClock(WEEKEND_MS);
      }
      return loses(request, count);
    });
    await world.bill();
  },
  async oursAlso(world) {
    const sent = keysOf(world, 'confirm').length;
    if (sent !== SENDS_BEFORE) throw new Error(`the key was sent ${sent} times`);
  },
};
