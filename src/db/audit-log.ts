import type { Db } from './database.ts';

export interface AuditEntry {
  readonly actor: string;
  readonly action: string;
  readonly namespace?: string;
  readonly period?: string;
  readonly customerId?: string;
  readonly reason?: string;
  readonly details?: Readonly<Record<string, string | number | boolean | null>>;
}

/** Appends who did what and why. In the caller's transaction: what is rolled back was never logged. */
export async function writeAuditEntry(db: Db, entry: AuditEntry): Promise<void> {
  await db
    .insertInto('audit_log')
    .values({
      actor: entry.actor,
      action: entry.action,
      namespace: entry.namespace ?? null,
      period: entry.period ?? null,
      customer_id: entry.customerId ?? null,
      reason: entry.reason ?? null,
      details: JSON.stringify(entry.details ?? {}),
    })
    .execute();
}
