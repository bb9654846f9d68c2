import type { Kysely } from 'kysely';
import type { RunClient, StartAnswer } from './client.ts';
import { readRun } from './db/runs.ts';
import type { DB } from './db/schema.ts';
import { runWorkflowId, type RunRef } from './domain/ids.ts';

/** What became of the order to bill a period. */
export type StartOutcome =
  | StartAnswer
  /** an operator stopped it, and the order does not say that it is to go on */
  | { readonly kind: 'stopped' }
  /** nobody is active */
  | { readonly kind: 'noCustomers' }
  /** Temporal has it as ended, and this database has no plan of it */
  | { readonly kind: 'otherDatabase'; readonly workflowId: string };

export interface StartOrder {
  readonly run: RunRef;
  readonly startedBy: string;
  readonly goOnAfterStop: boolean;
}

/**
 * Starts the run of a period, or says why not. A completed one is not started again. Twice, or from several places at
 * once: one run, since Temporal has one workflow of its ID.
 */
export async function startPeriod(
  world: { readonly db: Kysely<DB>; readonly client: () => Promise<RunClient> },
  { run, startedBy, goOnAfterStop }: StartOrder,
): Promise<StartOutcome> {
  const { db } = world;
  const before = await readRun(db, run);
  if (before?.state === 'completed')
    return { kind: 'completedBefore', workflowId: runWorkflowId(run) };
  if (before?.state === 'stopped' && !goOnAfterStop) return { kind: 'stopped' };
  if (before === null && !(await hasCustomers(db))) return { kind: 'noCustomers' };
  const client = await world.client();
  const answer = await client.startRun(run, startedBy, {
    goOnAfterStop: before?.state === 'stopped',
  });
  // Planned and completed since we looked is a run of this database.
  if (answer.kind === 'completedBefore' && (await readRun(db, run)) === null)
    return { kind: 'otherDatabase', workflowId: answer.workflowId };
  return answer;
}

async function hasCustomers(db: Kysely<DB>): Promise<boolean> {
  const active = await db
    .selectFrom('customers')
    .select('customer_id')
    .where('active', '=', true)
    .limit(1)
    .executeTakeFirst();
  return active !== undefined;
}
