import { isGrpcServiceError, type Client, type WorkflowHandle } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { parseCustomerId } from '../domain/customer-id.ts';
import { customerWorkflowId, runWorkflowId, type RunRef } from '../domain/ids.ts';
import { isObject } from './read-page.ts';
import type { CustomerHistory, HistoryCharge, TemporalWitness } from './witnesses.ts';

/** Histories read at once: enough to hide the round trip, little enough for a small server. */
const CONCURRENCY = 10;
/** gRPC's NOT_FOUND: the history is over retention, deleted, or never was. */
const NOT_FOUND = 5;
/** Visibility lags by up to a second or two; after this long its answer is taken as it is. */
const MAX_COUNTS = 10;
const COUNT_PAUSE_MS = 200;

type History = Awaited<ReturnType<WorkflowHandle['fetchHistory']>>;
type HistoryEvent = NonNullable<History['events']>[number];

/** The histories of the customers' workflows: all Temporal runs of each ID that Temporal still has. */
export function temporalHistoryWitness(client: Client): TemporalWitness {
  return {
    source: `Temporal namespace ${client.options.namespace}`,
    histories: (run, customerIds) => readHistories(client, run, customerIds),
  };
}

async function* readHistories(
  client: Client,
  run: RunRef,
  customerIds: Iterable<string>,
): AsyncGenerator<CustomerHistory> {
  const listed = await listRuns(client, run);
  const ids = function* () {
    for (const customerId of customerIds) {
      yield { customerId, runIds: listed.get(customerId) ?? [] };
      listed.delete(customerId);
    }
    // Whoever is left was worked on without being asked for.
    for (const [customerId, runIds] of listed) yield { customerId, runIds };
  };
  for await (const history of inParallel(ids(), (one) => readCustomer(client, run, one))) {
    if (history !== null) yield history;
  }
}

/** Customers and their Temporal runs as visibility has them. It lags, so the ids of the plan are asked for as well. */
async function listRuns(client: Client, run: RunRef): Promise<Map<string, string[]>> {
  const query =
    `BillingPeriod = "${run.period}" AND BillingNamespace = "${run.namespace}"` +
    ' AND WorkflowType = "customerCharge"';
  const listed = new Map<string, string[]>();
  const prefix = `${runWorkflowId(run)}/`;
  try {
    await untilCountIsStable(client, query);
    for await (const { workflowId, runId } of client.workflow.list({ query })) {
      if (!workflowId.startsWith(prefix)) continue;
      const customerId = workflowId.slice(prefix.length);
      listed.set(customerId, [...(listed.get(customerId) ?? []), runId]);
    }
  } catch (error) {
    // Without our search attributes there is no list; a server that is gone fails at the first history.
    if (!isGrpcServiceError(error)) throw error;
  }
  return listed;
}

async function untilCountIsStable(client: Client, query: string): Promise<void> {
  let before = -1;
  for (let asked = 0; asked < MAX_COUNTS; asked += 1) {
    const { count } = await client.workflow.count(query);
    if (count === before) return;
    before = count;
    await new Promise((resolve) => setTimeout(resolve, COUNT_PAUSE_MS));
  }
}

async function readCustomer(
  client: Client,
  run: RunRef,
  { customerId, runIds }: { customerId: string; runIds: readonly string[] },
): Promise<CustomerHistory | null> {
  const parsed = parseCustomerId(customerId);
  if (!parsed.ok) return null;
  const workflowId = customerWorkflowId({ ...run, customerId: parsed.customerId });
  const latest = await fetchHistory(client, workflowId);
  if (latest === null) return null;
  const latestRunId = runIdOf(latest);
  const facts: RunFacts[] = [];
  let partial = false;
  for (const runId of runIds) {
    if (runId === latestRunId) continue;
    const earlier = await fetchHistory(client, workflowId, runId);
    if (earlier === null) partial = true;
    else facts.push(await readRun(client, earlier));
  }
  const last = await readRun(client, latest);
  facts.push(last);
  const charges = new Map<string, HistoryCharge>();
  for (const fact of facts) for (const charge of fact.charges) charges.set(charge.chargeId, charge);
  return {
    customerId,
    temporalRuns: facts.length,
    charges: [...charges.values()],
    returned: last.returned,
    open: last.open,
    partial,
  };
}

async function fetchHistory(
  client: Client,
  workflowId: string,
  runId?: string,
): Promise<readonly HistoryEvent[] | null> {
  try {
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    return events ?? [];
  } catch (error) {
    if (!isGrpcServiceError(error)) throw error;
    const code: number = error.code;
    if (code === NOT_FOUND) return null;
    throw error;
  }
}

function runIdOf(events: readonly HistoryEvent[]): string | null | undefined {
  return events[0]?.workflowExecutionStartedEventAttributes?.originalExecutionRunId;
}

interface RunFacts {
  readonly charges: readonly HistoryCharge[];
  readonly returned: string | null;
  readonly open: boolean;
}

/** What one Temporal run learned of money: the answers of charge and reconcile, and what it returned. */
async function readRun(client: Client, events: readonly HistoryEvent[]): Promise<RunFacts> {
  const asked = new Map<string, string>();
  const charges: HistoryCharge[] = [];
  let returned: string | null = null;
  let open = true;
  for (const event of events) {
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) asked.set(String(event.eventId), scheduled.activityType?.name ?? '');
    const answered = event.activityTaskCompletedEventAttributes;
    if (answered) {
      const activity = asked.get(String(answered.scheduledEventId)) ?? '';
      if (activity !== 'charge' && activity !== 'reconcile') continue;
      const charge = chargeIn(await decode(client, answered.result?.payloads?.[0]));
      if (charge !== null) charges.push(charge);
    }
    const completed = event.workflowExecutionCompletedEventAttributes;
    if (completed) {
      const result = await decode(client, completed.result?.payloads?.[0]);
      const outcome = isObject(result) ? result['outcome'] : null;
      returned = typeof outcome === 'string' ? outcome : null;
    }
    if (isClosing(event)) open = false;
  }
  return { charges, returned, open };
}

function isClosing(event: HistoryEvent): boolean {
  return Boolean(
    event.workflowExecutionCompletedEventAttributes ??
    event.workflowExecutionFailedEventAttributes ??
    event.workflowExecutionTimedOutEventAttributes ??
    event.workflowExecutionCanceledEventAttributes ??
    event.workflowExecutionTerminatedEventAttributes ??
    event.workflowExecutionContinuedAsNewEventAttributes,
  );
}

/** charge answers `{result}`, reconcile `{charge: {result}}` when it settled. */
function chargeIn(answer: unknown): HistoryCharge | null {
  if (!isObject(answer)) return null;
  const holder = isObject(answer['charge']) ? answer['charge'] : answer;
  const { result } = holder;
  if (!isObject(result) || result['outcome'] !== 'charged') return null;
  return {
    paymentIntentId: String(result['paymentIntentId']),
    chargeId: String(result['chargeId']),
    amountMinor: Number(result['amountMinor']),
    currency: String(result['currency']),
  };
}

async function decode(client: Client, payload: Payload | null | undefined): Promise<unknown> {
  if (!payload) return null;
  const { payloadCodecs, payloadConverter } = client.workflow.options.loadedDataConverter;
  let decoded = [payload];
  for (const codec of payloadCodecs) decoded = await codec.decode(decoded);
  const [first] = decoded;
  return first === undefined ? null : payloadConverter.fromPayload(first);
}

/** The results of an asynchronous function over many inputs, a few at a time, as they come. */
async function* inParallel<In, Out>(
  inputs: Iterable<In>,
  work: (input: In) => Promise<Out>,
): AsyncGenerator<Out> {
  const running = new Map<number, Promise<{ id: number; value: Out }>>();
  let next = 0;
  try {
    for (const input of inputs) {
      const id = next;
      next += 1;
      running.set(
        id,
        work(input).then((value) => ({ id, value })),
      );
      if (running.size < CONCURRENCY) continue;
      const { id: done, value } = await Promise.race(running.values());
      running.delete(done);
      yield value;
    }
    while (running.size > 0) {
      const { id: done, value } = await Promise.race(running.values());
      running.delete(done);
      yield value;
    }
  } finally {
    // After a failure the others are still under way; nobody else would hear how they end.
    await Promise.allSettled(running.values());
  }
}
