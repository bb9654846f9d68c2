import { sql } from 'kysely';
import { writeAuditEntry } from './audit-log.ts';
import type { Db } from './database.ts';
import {
  auditDetails,
  differencesOf,
  readDatabasePlace,
  readEnvironment,
  writeBinding,
  type EnvironmentDifference,
  type WantedEnvironment,
} from './environment.ts';

export interface Adoption {
  readonly operator: string;
  readonly reason: string;
  /** another Stripe account or mode is meant, not a slip */
  readonly accountChanged: boolean;
}

export type AdoptionAnswer =
  /** no worker has bound this database yet; the first one will */
  | { readonly kind: 'unbound' }
  | { readonly kind: 'same' }
  | { readonly kind: 'adopted'; readonly differences: readonly EnvironmentDifference[] }
  | { readonly kind: 'refused'; readonly why: string };

/**
 * Binds the database to where it stands now, on an operator's order, and logs old and new. Another
 * account only when the order says so, no slot is open under the old one and no worker is connected.
 * Twice: the second finds nothing to change and logs nothing.
 */
export async function adoptEnvironment(
  db: Db,
  wanted: WantedEnvironment,
  order: Adoption,
): Promise<AdoptionAnswer> {
  const here = await readDatabasePlace(db);
  return db.transaction().execute(async (trx) => {
    const bound = await readEnvironment(trx, 'locked');
    if (bound === null) return { kind: 'unbound' };
    const differences = differencesOf(bound, { ...wanted, database: here });
    if (differences.length === 0) return { kind: 'same' };
    const why = differences.some(({ what }) => what.startsWith('stripe'))
      ? await whyNotAnotherAccount(trx, bound.account, order)
      : null;
    if (why !== null) return { kind: 'refused', why };
    await writeBinding(trx, { ...wanted, temporal: wanted.temporal ?? bound.temporal }, here);
    await writeAuditEntry(trx, {
      actor: order.operator,
      action: 'environment.adopted',
      reason: order.reason,
      details: {
        ...auditDetails(bound, 'old.'),
        ...auditDetails({ ...wanted, database: here }, 'new.'),
      },
    });
    return { kind: 'adopted', differences };
  });
}

async function whyNotAnotherAccount(
  trx: Db,
  account: string,
  order: Adoption,
): Promise<string | null> {
  if (!order.accountChanged) {
    return (
      `this database belongs to Stripe account ${account}, and this key is for another account or mode. ` +
      'If that is meant, add --account-changed'
    );
  }
  const { rows } = await sql<{ open: number; workers: number }>`
    SELECT (SELECT count(*) FROM billing_charges
            WHERE state IN ('claimed', 'sent', 'indeterminate', 'in_review'))::integer AS open,
           (SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'chargeonce worker')::integer AS workers`.execute(
    trx,
  );
  const { open = 0, workers = 0 } = rows[0] ?? {};
  if (open > 0) {
    return (
      `${open} slots are open under account ${account}: their keys were made for it, and under another account they would ` +
      'charge again. Settle them first with a key of that account: chargeonce status PERIOD'
    );
  }
  if (workers > 0) {
    return `workers are connected to this database (${workers} connections): stop them first, then adopt`;
  }
  return null;
}
