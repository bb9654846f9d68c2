import { scheduleId } from '../domain/ids.ts';
import type { BillingNamespace } from '../domain/namespace.ts';
import { writeAuditEntry } from './audit-log.ts';
import type { Db } from './database.ts';

export interface ScheduleOrder {
  readonly action: 'set' | 'pause' | 'resume' | 'remove';
  readonly namespace: BillingNamespace;
  readonly operator: string;
  readonly reason: string;
  /** what an order of `set` changes */
  readonly change?: {
    /** created, updated or unchanged */
    readonly action: string;
    readonly changes: readonly {
      readonly setting: string;
      readonly from: string | null;
      readonly to: string;
    }[];
  };
}

/**
 * Puts an order about a Schedule into the audit log. Written before Temporal is told: an entry too many is better than a
 * change that nobody ordered.
 */
export async function logScheduleOrder(db: Db, order: ScheduleOrder): Promise<void> {
  const { action, namespace, operator, reason, change } = order;
  const changes = change?.changes.map(
    ({ setting, from, to }) => `${setting}: ${from ?? ''} → ${to}`,
  );
  await writeAuditEntry(db, {
    actor: operator,
    action: `schedule.${action}_ordered`,
    namespace,
    reason,
    details: {
      scheduleId: scheduleId(namespace),
      ...(change === undefined ? {} : { becomes: change.action }),
      ...(changes === undefined ? {} : { changes: changes.join('; ') }),
    },
  });
}
