import type { Db } from './database.ts';
import { writeAuditEntry } from './audit-log.ts';

export interface StripeEnvironment {
  readonly account: string;
  readonly liveMode: boolean;
}

/** The database was billed against another Stripe account or mode. Nothing may be sent from it. */
export class EnvironmentMismatch extends Error {
  override readonly name = 'EnvironmentMismatch';
}

/**
 * Binds a new database to its Stripe account and mode, and refuses any other one from then on.
 * Twice, or by two at once: one row is written, the other call compares.
 */
export async function ensureEnvironment(db: Db, wanted: StripeEnvironment): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const bound = await trx
      .insertInto('environment')
      .values({ stripe_account: wanted.account, live_mode: wanted.liveMode })
      .onConflict((conflict) => conflict.column('singleton').doNothing())
      .returning('stripe_account')
      .executeTakeFirst();
    if (bound === undefined) return;
    await writeAuditEntry(trx, {
      actor: 'setup',
      action: 'environment.bound',
      details: { account: wanted.account, liveMode: wanted.liveMode },
    });
  });
  const found = await db.selectFrom('environment').selectAll().executeTakeFirstOrThrow();
  if (found.stripe_account === wanted.account && found.live_mode === wanted.liveMode) return;
  const mode = (live: boolean): string => (live ? 'live' : 'test');
  throw new EnvironmentMismatch(
    `this database belongs to Stripe account ${found.stripe_account} in ${mode(found.live_mode)} mode, ` +
      `but STRIPE_API_KEY is for ${wanted.account} in ${mode(wanted.liveMode)} mode. ` +
      'Use the key of that account, or a database of its own for this one (DATABASE_URL or CHARGEONCE_HOME).',
  );
}
