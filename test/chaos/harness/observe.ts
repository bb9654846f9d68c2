import type { Client } from '@temporalio/client';
import { customerWorkflowId } from '../../../src/domain/ids.ts';
import { slotRef } from '../../support/names.ts';
import type { WorkerBlow } from './workers.ts';
import { eventually, pause } from './luck.ts';
import { Tally } from './tally.ts';
import type { World } from './world.ts';

const POLL_MS = 250;
const HISTORIES_AT_ONCE = 10;

/** Slot states that somebody saw, each with the most slots that stood there at once. */
export async function watchStates(
  world: World,
  most: Map<string, number>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const rows = await world
      .query<{ state: string; n: number }>(
        'select state::text, count(*)::integer as n from billing_charges group by state',
      )
      .catch(() => []);
    for (const { state, n } of rows) most.set(state, Math.max(most.get(state) ?? 0, n));
    if (signal.aborted) return;
    await pause(POLL_MS, signal);
  }
}

export interface Standing {
  /** '' while the database is away or the run is not planned */
  readonly run: string;
  readonly open: number;
  readonly settled: number;
}

export async function standing(world: World): Promise<Standing> {
  const [row] = await world
    .query<{ run: string | null; open: number; settled: number }>(
      `select (select state::text from billing_runs) as run,
         (count(*) filter (where state in ('claimed', 'sent', 'indeterminate', 'in_review')))::integer as open,
         (count(*) filter (where state not in ('claimed', 'sent', 'indeterminate', 'in_review')))::integer as settled
       from billing_charges`,
    )
    .catch(() => []);
  return { run: row?.run ?? '', open: row?.open ?? 0, settled: row?.settled ?? 0 };
}

/** How long after a worker's kill somebody else had taken up every charge it had in flight. */
export interface Recovery {
  readonly kills: number;
  /** kills that met charges in flight */
  readonly withCharges: number;
  readonly medianMs: number;
  readonly maxMs: number;
}

/**
 * From the tables, after the end: a charge in flight is an attempt of the killed worker without an answer, sent
 * before the kill, of a slot that was settled later. It is taken up again by the next attempt at Stripe or by an
 * outcome in the audit log (unknown included), whichever is first.
 */
export async function recoveryOf(world: World, blows: readonly WorkerBlow[]): Promise<Recovery> {
  const times: number[] = [];
  const kills = blows.filter(({ kind }) => kind === 'kill');
  for (const { worker, until } of kills) {
    const [row] = await world.query<{ in_flight: number; last: Date | null }>(
      `with dead as (
         select distinct g.namespace, g.period, g.customer_id
         from charge_attempts a join charge_generations g using (idempotency_key)
         join billing_charges s using (namespace, period, customer_id)
         left join charge_attempt_answers r using (attempt_id)
         where a.worker = $1 and a.sent_at <= $2 and r.attempt_id is null
           and coalesce(s.settled_at, 'infinity') > $2
           and not exists (
             select from charge_attempts later join charge_generations other using (idempotency_key)
             where other.customer_id = g.customer_id and other.period = g.period
               and later.sent_at > a.sent_at and later.sent_at <= $2)),
       up as (
         select d.customer_id, least(
           (select min(a.sent_at) from charge_attempts a join charge_generations g using (idempotency_key)
             where g.customer_id = d.customer_id and g.period = d.period and a.sent_at > $2),
           (select min(l.at) from audit_log l
             where l.customer_id = d.customer_id and l.period = d.period and l.at > $2)) as at
         from dead d)
       select count(*)::integer as in_flight, max(at) as last from up`,
      [worker, until],
    );
    if (row === undefined || row.in_flight === 0 || row.last === null) continue;
    times.push(row.last.getTime() - until.getTime());
  }
  const sorted = times.toSorted((a, b) => a - b);
  return {
    kills: kills.length,
    withCharges: sorted.length,
    medianMs: sorted[Math.floor(sorted.length / 2)] ?? 0,
    maxMs: sorted.at(-1) ?? 0,
  };
}

/** Charges of which two attempts were alive at once: one in a frozen worker that woke up, one in another. */
export async function zombies(world: World, blows: readonly WorkerBlow[]): Promise<number> {
  let count = 0;
  for (const { worker, at, until } of blows.filter(({ kind }) => kind === 'freeze')) {
    const [row] = await world.query<{ n: number }>(
      `select count(distinct a.idempotency_key)::integer as n
       from charge_attempts a left join charge_attempt_answers r using (attempt_id)
       where a.worker = $1 and a.sent_at <= $2 and coalesce(r.answered_at, 'infinity') >= $2
         and exists (select from charge_attempts b where b.idempotency_key = a.idempotency_key
           and b.worker <> a.worker and b.sent_at between $2 and $3)`,
      [worker, at, until],
    );
    count += row?.n ?? 0;
  }
  return count;
}

/** What claimSlot answered, from the markers in the histories of all the customers' workflows. */
export async function claimAnswers(world: World, customers: readonly string[]): Promise<Tally> {
  const seen = new Tally();
  const queue = [...customers];
  const read = async (): Promise<void> => {
    for (let id = queue.pop(); id !== undefined; id = queue.pop()) {
      for (const answer of await answersIn(world.client.temporal, world, id)) seen.add(answer);
    }
  };
  await Promise.all(Array.from({ length: HISTORIES_AT_ONCE }, read));
  return seen;
}

async function answersIn(client: Client, world: World, customer: string): Promise<string[]> {
  const workflowId = customerWorkflowId(slotRef(customer, world.run));
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  return (events ?? []).flatMap((event) => {
    const details = event.markerRecordedEventAttributes?.details;
    const [about] = details?.['data']?.payloads ?? [];
    const [result] = details?.['result']?.payloads ?? [];
    if (!about?.data || !result?.data) return [];
    if (!Buffer.from(about.data).toString('utf8').includes('"claimSlot"')) return [];
    const answer: unknown = JSON.parse(Buffer.from(result.data).toString('utf8'));
    const known = typeof answer === 'object' && answer !== null && 'kind' in answer;
    return known ? [String(answer.kind)] : [];
  });
}

/**
 * Kills one worker while nothing else fails, and waits until every charge it had in flight is settled: the figure
 * that the bar of 25 s is about. The run is paused meanwhile, so that enough is left for the faults. Null when it
 * could not be measured.
 */
export async function calmKill(world: World, signal: AbortSignal): Promise<number | null> {
  const limit = { timeoutMs: 60_000, pollMs: 50, signal };
  let victim = '';
  await eventually(async () => {
    const most = [...countByWorker(await inFlight(world))].find(([, count]) => count >= IN_FLIGHT);
    victim = most?.[0] ?? '';
    return victim !== '';
  }, limit);
  const blow = await world.workers.killByName(victim);
  if (blow === null) return null;
  const held = (await inFlight(world)).filter(({ worker }) => worker === blow.worker);
  const ids = held.map(({ customer_id }) => customer_id);
  // Its answer may have to wait for the killed worker's successor, like all the rest.
  const paused = world.client.pause(world.run, CALM).catch(() => {});
  const settled = await eventually(async () => {
    const rows = await world.query(
      `select 1 from billing_charges where customer_id = any ($1::text[])
       and state in ('claimed', 'sent', 'indeterminate') limit 1`,
      [ids],
    );
    return rows.length === 0;
  }, limit);
  const recoveryMs = Date.now() - blow.until.getTime();
  await eventually(async () => world.workers.ready === 2, limit);
  await paused;
  await world.client.resume(world.run, CALM);
  // The faults begin when charges are under way again.
  await eventually(async () => (await inFlight(world)).length >= IN_FLIGHT, limit);
  return settled && ids.length > 0 ? recoveryMs : null;
}

/** Charges in flight at least, so that a blow meets some. */
const IN_FLIGHT = 3;

function countByWorker(attempts: readonly { readonly worker: string }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { worker } of attempts) counts.set(worker, (counts.get(worker) ?? 0) + 1);
  return counts;
}

const CALM = { operator: 'chaos', reason: 'chaos: one worker is killed while nothing else fails' };

function inFlight(world: World): Promise<{ customer_id: string; worker: string }[]> {
  return world.query<{ customer_id: string; worker: string }>(
    `select distinct g.customer_id, a.worker
     from charge_attempts a join charge_generations g using (idempotency_key)
     join billing_charges s using (namespace, period, customer_id)
     left join charge_attempt_answers r using (attempt_id)
     where s.state = 'sent' and r.attempt_id is null
     -- a bank debit is settled by the bank, not by a successor
     and g.request_body not like '%pm_usBankAccount%'
     and not exists (select from charge_attempts b join charge_generations h using (idempotency_key)
       where h.customer_id = g.customer_id and b.sent_at > a.sent_at)`,
  );
}

/** An event is late when its slot's outcome stood this long before it came. */
const LATE = '3 seconds';
const REST_MS = 30_000;

export async function lateEvents(world: World): Promise<number> {
  const [row] = await world.query<{ n: number }>(
    `select count(*)::integer as n from webhook_events e
     join billing_charges s on s.payment_intent_id = e.payment_intent_id
     where e.received_at > s.settled_at + $1::interval`,
    [LATE],
  );
  return row?.n ?? 0;
}

/** What came of the events that were taken. */
export async function webhookResults(world: World): Promise<Record<string, number>> {
  const rows = await world.query<{ result: string; n: number }>(
    `select coalesce(result::text, state::text) as result, count(*)::integer as n
     from webhook_events group by 1 order by 1`,
  );
  return Object.fromEntries(rows.map(({ result, n }) => [result, n]));
}

/** Lets the events be processed, then ends the server and waits until no customer's workflow is under way. */
export async function comeToRest(world: World, signal: AbortSignal): Promise<void> {
  const limit = { timeoutMs: REST_MS, pollMs: 200, signal };
  await eventually(async () => {
    const waiting = await world.query(
      `select 1 from webhook_events where state = 'received' and next_try_at < now() + interval '5 seconds' limit 1`,
    );
    return waiting.length === 0;
  }, limit);
  world.server.hold(true);
  await world.server.end('SIGTERM');
  await eventually(async () => {
    const { count } = await world.client.temporal.workflow.count(`ExecutionStatus = 'Running'`);
    return count === 0;
  }, limit);
}
