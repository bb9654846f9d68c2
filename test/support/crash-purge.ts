import { BILLING_TASK_QUEUE } from '../../src/domain/ids.ts';
import type { Kill } from './crash-table.ts';
import type { CrashWorld } from './crash-world.ts';

/** What is there of the inbox while it is purged. */
export interface Inbox {
  /** processed long ago: to be purged */
  readonly old: number;
  readonly recent: number;
  /** old as well, and still waiting to be processed */
  readonly waiting: number;
  /** the housekeeping workflow */
  readonly workflow: string;
}

/** Two batches of the purge, the second one not full. */
const OLD = 700;
const BATCH = 500;
const KEPT = 10;

/** What must be left between the two batches, and in the end. */
export const BETWEEN: Inbox = {
  old: OLD - BATCH,
  recent: KEPT,
  waiting: KEPT,
  workflow: 'RUNNING',
};
export const PURGED: Inbox = { old: 0, recent: KEPT, waiting: KEPT, workflow: 'COMPLETED' };

const idOf = (kill: Kill): string => `housekeeping-crash-${kill}`;

/** Fills the inbox and starts the hourly sweep, which purges first. */
export async function startPurge(world: CrashWorld, kill: Kill): Promise<void> {
  const fill = (kind: string, count: number, columns: string): Promise<unknown[]> =>
    world.query(
      `insert into webhook_events (event_id, type, livemode, created_at, object_id, received_at, state, result, processed_at)
       select 'evt_${kill}_${kind}_' || n, 'charge.succeeded', false, now() - interval '40 days', 'ch_' || n,
         now() - interval '40 days', ${columns} from generate_series(1, $1) n`,
      [count],
    );
  await fill('old', OLD, `'processed', 'unmatched', now() - interval '40 days'`);
  await fill('recent', KEPT, `'processed', 'unmatched', now()`);
  await fill('waiting', KEPT, `'received', null, null`);
  await world.client.temporal.workflow.start('housekeeping', {
    workflowId: idOf(kill),
    taskQueue: BILLING_TASK_QUEUE,
    args: [{}],
  });
}

export async function inboxOf(
  world: CrashWorld,
  kill: Kill,
): Promise<{ readonly inbox: Inbox; readonly endedAt: number }> {
  const rows = await world.query<{ kind: 'old' | 'recent' | 'waiting'; n: number }>(
    `select split_part(event_id, '_', 3) as kind, count(*)::integer as n from webhook_events
     where split_part(event_id, '_', 2) = $1 group by 1`,
    [kill],
  );
  const of = (kind: string): number => rows.find((row) => row.kind === kind)?.n ?? 0;
  const { status, closeTime } = await world.client.temporal.workflow
    .getHandle(idOf(kill))
    .describe();
  return {
    inbox: { old: of('old'), recent: of('recent'), waiting: of('waiting'), workflow: status.name },
    endedAt: closeTime?.getTime() ?? Infinity,
  };
}

export async function purgeEnds(world: CrashWorld, kill: Kill): Promise<void> {
  await world.client.temporal.workflow.getHandle(idOf(kill)).result();
}
