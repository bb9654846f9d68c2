import { setTimeout as sleep } from 'node:timers/promises';
import { sql, type Kysely } from 'kysely';
import type { DB } from '../../src/db/schema.ts';

/** Returns once a session of this database waits for a lock. */
export async function untilWaiting(db: Kysely<DB>): Promise<void> {
  await untilSome('session that waits for a lock', async () => {
    const { rows } = await sql`
      SELECT 1 FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND datname = current_database()`.execute(db);
    return rows;
  });
}

/** Returns once the confirm of somebody in this period has been sent. */
export async function untilConfirmSent(db: Kysely<DB>, period: string): Promise<void> {
  await untilSome('confirm that was sent', () =>
    db
      .selectFrom('charge_generations')
      .select('idempotency_key')
      .where('period', '=', period)
      .where('operation', '=', 'confirm')
      .where('first_sent_at', 'is not', null)
      .execute(),
  );
}

async function untilSome(what: string, find: () => Promise<readonly unknown[]>): Promise<void> {
  for (let tries = 0; tries < 2_000; tries += 1) {
    if ((await find()).length > 0) return;
    await sleep(10);
  }
  throw new Error(`waited in vain for a ${what}`);
}
