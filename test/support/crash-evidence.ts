import { customerWorkflowId, runWorkflowId, type RunRef } from '../../src/domain/ids.ts';
import type { CrashWorld } from './crash-world.ts';
import { slotRef } from './names.ts';

/** Where one customer's charge stands, as the database, the simulator's ledger and Temporal's history have it. */
export interface Evidence {
  readonly state: string | null;
  /** the create's key counts as sent */
  readonly sent: boolean;
  /** pi_… is committed */
  readonly kept: boolean;
  readonly intents: number;
  readonly succeeded: number;
  /** markers of local activities in the history: claim, then record */
  readonly markers: number;
  /** the charge's completion is in the history */
  readonly completed: boolean;
}

const NOTHING: Evidence = {
  state: null,
  sent: false,
  kept: false,
  intents: 0,
  succeeded: 0,
  markers: 0,
  completed: false,
};
const CLAIMED: Evidence = { ...NOTHING, state: 'claimed' };
const SENT: Evidence = { ...CLAIMED, state: 'sent', sent: true, markers: 1 };
const CONFIRMED: Evidence = { ...SENT, kept: true, intents: 1, succeeded: 1 };
const COMPLETED: Evidence = { ...CONFIRMED, completed: true };

/** What must be there at each point, and nothing more: a blow that fell elsewhere proves nothing. */
export const STANDS_AT: Readonly<Record<string, Evidence>> = {
  C1: NOTHING,
  C2: CLAIMED,
  C3: { ...CLAIMED, markers: 1 },
  C4: SENT,
  C5: { ...SENT, intents: 1 },
  C6: { ...SENT, intents: 1 },
  C7: { ...SENT, intents: 1, kept: true },
  C8: { ...SENT, intents: 1, kept: true },
  C9: CONFIRMED,
  C10: CONFIRMED,
  C11: COMPLETED,
  C12: COMPLETED,
  C13: { ...COMPLETED, state: 'charged' },
};

export async function evidenceOf(
  world: CrashWorld,
  run: RunRef,
  customer: string,
): Promise<Evidence> {
  const [row] = await world.query<{ state: string; sent: boolean; kept: boolean }>(
    `select s.state, s.payment_intent_id is not null as kept,
       exists (select from charge_generations g where g.customer_id = s.customer_id and g.period = s.period
         and g.first_sent_at is not null) as sent
     from billing_charges s where s.period = $1 and s.customer_id = $2`,
    [run.period, customer],
  );
  const types = await eventTypes(world, customerWorkflowId(slotRef(customer, run)));
  return {
    state: row?.state ?? null,
    sent: row?.sent ?? false,
    kept: row?.kept ?? false,
    ...ledgerOf(world, run, customer),
    markers: types.filter((type) => type === 'markerRecorded').length,
    completed: types.includes('activityTaskCompleted'),
  };
}

function ledgerOf(world: CrashWorld, run: RunRef, customer: string) {
  const entries = world.simulator.ledger({ period: run.period, customer }).entries;
  const charges = entries.flatMap((entry) => entry.charges);
  return {
    intents: entries.length,
    succeeded: charges.filter((charge) => charge.status === 'succeeded').length,
  };
}

/** The kinds of a workflow's events, in order, e.g. `activityTaskCompleted`. */
export async function eventTypes(world: CrashWorld, workflowId: string): Promise<string[]> {
  const history = await world.client.temporal.workflow.getHandle(workflowId).fetchHistory();
  return (history.events ?? []).map((event) => {
    const attributes = Object.keys(event).find((name) => name.endsWith('EventAttributes'));
    return attributes?.replace('EventAttributes', '') ?? 'unknown';
  });
}

/** A workflow's events with the seconds since the first one, for a failure's message. */
export async function traceOf(world: CrashWorld, workflowId: string): Promise<string> {
  const history = await world.client.temporal.workflow.getHandle(workflowId).fetchHistory();
  const types = await eventTypes(world, workflowId);
  const seconds = (history.events ?? []).map(
    ({ eventTime }) => Number(eventTime?.seconds ?? 0) + (eventTime?.nanos ?? 0) / 1e9,
  );
  return types
    .map((type, i) => `${((seconds[i] ?? 0) - (seconds[0] ?? 0)).toFixed(1)} ${type}`)
    .join(', ');
}

/** How it ended for one customer, and when. */
export interface Ending {
  readonly state: string | null;
  readonly generation: number | null;
  readonly keys: number;
  readonly intents: number;
  readonly succeeded: number;
  readonly workflow: string;
}

export const CHARGED_ONCE: Ending = {
  state: 'charged',
  generation: 1,
  keys: 2,
  intents: 1,
  succeeded: 1,
  workflow: 'COMPLETED',
};

export async function endingOf(
  world: CrashWorld,
  run: RunRef,
  customer: string,
): Promise<{ readonly ending: Ending; readonly endedAt: number }> {
  const [row] = await world.query<{ state: string; generation: number; keys: number }>(
    `select s.state, s.generation, (select count(*)::integer from charge_generations g
       where g.customer_id = s.customer_id and g.period = s.period) as keys
     from billing_charges s where s.period = $1 and s.customer_id = $2`,
    [run.period, customer],
  );
  const workflowId = customerWorkflowId(slotRef(customer, run));
  const { status, closeTime } = await world.client.temporal.workflow
    .getHandle(workflowId)
    .describe();
  return {
    ending: {
      state: row?.state ?? null,
      generation: row?.generation ?? null,
      keys: row?.keys ?? 0,
      ...ledgerOf(world, run, customer),
      workflow: status.name,
    },
    endedAt: closeTime?.getTime() ?? Infinity,
  };
}

/** When the run's workflow closed. */
export async function runEndedAt(world: CrashWorld, run: RunRef): Promise<number> {
  const { closeTime } = await world.client.temporal.workflow
    .getHandle(runWorkflowId(run))
    .describe();
  return closeTime?.getTime() ?? Infinity;
}
