import { WorkflowNotFoundError } from '@temporalio/client';
import type { RunClient } from '../../client.ts';
import { hasPollers } from '../../client/pollers.ts';
import { readRunSummary, type RunSummary } from '../../db/run-summary.ts';
import { NO_OUTCOMES } from '../../domain/charge.ts';
import { runWorkflowId, type RunRef } from '../../domain/ids.ts';
import type { ApiDeps } from './deps.ts';
import { ApiProblem } from './problems.ts';
import type { RunProgressAnswer } from './schemas/runs.ts';

/** What Temporal is asked beside the database; without its answer the rest is shown all the same. */
const ASK_TIMEOUT_MS = 3_000;

/** How a run stands, out of the database, and while there is no plan yet out of Temporal. null: nobody knows it. */
export async function readProgress(deps: ApiDeps, run: RunRef): Promise<RunProgressAnswer | null> {
  const summary = await readRunSummary(deps.db, run);
  return summary === null ? unplanned(deps, run) : progressOf(run, summary);
}

/** Whether nothing more comes by itself. */
export function isOver({ state }: RunProgressAnswer): boolean {
  return state === 'completed' || state === 'stopped' || state === 'failed';
}

function progressOf(run: RunRef, summary: RunSummary): RunProgressAnswer {
  return {
    ...nameOf(run),
    state: summary.state,
    control: summary.control,
    note: summary.controlNote,
    customers: summary.customers,
    counts: { ...summary.counts },
    in_progress: summary.inProgress,
    in_review: summary.inReview,
    processing: summary.processing,
    unclaimed: summary.unclaimed,
    charged: { ...summary.chargedMinorByCurrency },
    expected: { ...summary.expectedMinorByCurrency },
    planned_at: summary.plannedAt.toISOString(),
    completed_at: summary.completedAt?.toISOString() ?? null,
  };
}

function nameOf(run: RunRef) {
  return { period: run.period, namespace: run.namespace, workflow_id: runWorkflowId(run) };
}

/** A run that has been started and has frozen nothing yet, or never came so far. */
async function unplanned(deps: ApiDeps, run: RunRef): Promise<RunProgressAnswer | null> {
  const known = await askTemporal(deps, run);
  if (known === null) return null;
  return {
    ...nameOf(run),
    state: known.failure === null ? 'planning' : 'failed',
    control: 'running',
    note: known.failure,
    customers: 0,
    counts: { ...NO_OUTCOMES },
    in_progress: 0,
    in_review: 0,
    processing: 0,
    unclaimed: 0,
    charged: {},
    expected: {},
    planned_at: null,
    completed_at: null,
  };
}

async function askTemporal(deps: ApiDeps, run: RunRef) {
  try {
    const client = await deps.temporal();
    return await within(client, () => describe(client, run));
  } catch (error) {
    deps.log.warn({ err: error }, 'Temporal cannot say whether a run was started');
    throw new ApiProblem('temporal-unavailable', {
      detail: `${run.period} (${run.namespace}) has no plan here, and Temporal, which does not answer, knows whether it was started`,
      retryAfterSeconds: 5,
    });
  }
}

async function describe(
  client: RunClient,
  run: RunRef,
): Promise<{ readonly failure: string | null } | null> {
  try {
    const { status } = await client.run(run).describe();
    const going = status.name === 'RUNNING' || status.name === 'CONTINUED_AS_NEW';
    return { failure: going ? null : await whyItEnded(client, run) };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

/** The deepest cause is what the activity said. */
async function whyItEnded(client: RunClient, run: RunRef): Promise<string> {
  try {
    await client.run(run).result();
    return 'it ended without a plan';
  } catch (error) {
    let said: unknown = error;
    while (said instanceof Error && said.cause instanceof Error) said = said.cause;
    return said instanceof Error ? said.message : 'it ended without a plan';
  }
}

/** Whether workers poll for runs; null when Temporal cannot be asked. */
export async function readPollers(deps: ApiDeps): Promise<boolean | null> {
  try {
    const client = await deps.temporal();
    return await within(client, () => hasPollers(client));
  } catch (error) {
    deps.log.warn({ err: error }, 'Temporal cannot say who polls');
    return null;
  }
}

function within<T>({ temporal }: RunClient, ask: () => Promise<T>): Promise<T> {
  return temporal.withDeadline(Date.now() + ASK_TIMEOUT_MS, ask);
}

/** Where Temporal's UI shows the run; null when the UI is not known. */
export function workflowUrl(deps: ApiDeps, run: RunRef): string | null {
  return workflowUrlOf(deps, runWorkflowId(run));
}

/** The same of any workflow. */
export function workflowUrlOf(deps: ApiDeps, workflowId: string): string | null {
  const { temporalUiUrl, temporalNamespace } = deps;
  if (temporalUiUrl === null) return null;
  const id = encodeURIComponent(workflowId);
  return `${temporalUiUrl}/namespaces/${encodeURIComponent(temporalNamespace)}/workflows/${id}`;
}
