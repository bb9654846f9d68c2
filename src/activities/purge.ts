import { purgeSweeps } from '../db/sweep.ts';
import { purgeWebhookEvents } from '../db/webhook-events.ts';
import type { ActivityDeps } from './deps.ts';

/** Stripe sends an event again by itself for 3 days and by hand for 30 (docs.stripe.com/webhooks). */
const EVENTS_KEPT_DAYS = 35;
/** Rows of one statement, so that no lock is held for long. */
const BATCH = 500;
/** What one pass removes at most; the next pass goes on. */
const MAX_BATCHES = 200;

export interface PurgeReport {
  /** rows removed */
  readonly purged: number;
}

/**
 * Removes what has served its time, batch by batch: events that were processed, notes of old sweeps, stored
 * responses that are answered no more. Slots, keys, attempts and whatever is still waiting are never touched. Cut off or twice: the rest goes next time.
 */
export async function purge(deps: ActivityDeps): Promise<PurgeReport> {
  let purged = 0;
  const steps = [
    () => purgeWebhookEvents(deps.db, { olderThanDays: EVENTS_KEPT_DAYS, limit: BATCH }),
    () => purgeSweeps(deps.db, BATCH),
    () => deps.storedResponses.purge(BATCH),
  ];
  for (const step of steps) {
    for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
      const removed = await step();
      purged += removed;
      await deps.crashPoint('betweenPurgeBatches', null);
      if (removed < BATCH) break;
    }
  }
  return { purged };
}
