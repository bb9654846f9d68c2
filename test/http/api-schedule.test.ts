import { ServiceError } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RunClient } from '../../src/client.ts';
import { moveRun } from '../../src/db/runs.ts';
import { runRef, startEngine, type Engine } from '../support/engine.ts';
import { ADA, PAUL, startOperatorApi, VERA, type OperatorApi } from '../support/operator-api.ts';
import { startQuietDevServer } from '../support/stack.ts';

let env: TestWorkflowEnvironment;
let stack: Engine & { readonly client: RunClient };
let api: OperatorApi;

beforeAll(async () => {
  env = await startQuietDevServer();
  const client = await RunClient.connect({
    connection: { address: env.address },
    namespace: 'default',
  });
  stack = { ...(await startEngine()), client };
  api = await startOperatorApi(stack.db, {
    account: stack.deps.account,
    temporal: async () => client,
  });
});
afterAll(async () => {
  await api.close();
  await stack.client.close();
  await stack.close();
  await env.teardown();
});

/** An API whose Temporal answers no more from the so-manieth time on that it is asked for. */
async function silentFrom(time: number): Promise<OperatorApi> {
  const cause = Object.assign(new Error('4 DEADLINE_EXCEEDED'), {
    code: 4,
    details: '',
    metadata: {},
  });
  let asked = 0;
  return startOperatorApi(stack.db, {
    account: stack.deps.account,
    temporal: async () => {
      asked += 1;
      if (asked >= time) throw new ServiceError('no answer', { cause });
      return stack.client;
    },
  });
}

describe('POST /v1/runs with go_on_after_stop', () => {
  it('lets a run go on once, and not again after somebody has stopped it since', async () => {
    const run = runRef('2031-03');
    await stack.plan([{ id: 'c1' }], run);
    await moveRun(stack.db, run, { state: 'stopped', actor: 'test' });
    const body = { period: run.period, go_on_after_stop: true, reason: 'mended' };
    const order = { body, key: 'go-on' };
    const flaky = await silentFrom(2);
    expect(await flaky.call('POST', '/v1/runs', order)).toMatchObject({ status: 503 });
    await flaky.close();
    expect(await api.call('POST', '/v1/runs', order)).toMatchObject({
      status: 409,
      body: { code: 'run-stopped', detail: expect.stringContaining('new Idempotency-Key') },
    });
    expect(await api.call('POST', '/v1/runs', { body })).toMatchObject({
      status: 202,
      body: { result: 'started' },
    });
  });
});

describe('/v1/schedule', () => {
  const path = '/v1/schedule?namespace=overage';

  it('is made, changed, paused, resumed and removed, each with who and why in the audit log', async () => {
    const none = await api.call('GET', path, { as: VERA });
    expect(none).toMatchObject({ status: 404, body: { code: 'schedule-unknown' } });
    const body = { day: 3, time: '06:30', zone: 'Europe/Berlin', reason: 'bill by itself' };
    const tried = await api.call('PUT', `${path}&dry_run=true`, { as: ADA, body });
    expect(tried).toMatchObject({ status: 200, body: { action: 'created', dry_run: true } });
    expect(await api.call('GET', path)).toMatchObject({ status: 404 });
    const made = await api.call('PUT', path, { as: ADA, body });
    expect(made).toMatchObject({
      status: 200,
      body: { schedule_id: 'billing-schedule.overage', action: 'created', dry_run: false },
    });
    const changed = await api.call('PUT', path, { as: ADA, body: { ...body, day: 4 } });
    expect(changed).toMatchObject({
      body: { action: 'updated', changes: [{ setting: 'calendar', to: expect.any(String) }] },
    });
    const held = await api.call('POST', '/v1/schedule/pause?namespace=overage', {
      body: { reason: 'prices are wrong' },
    });
    expect(held).toMatchObject({
      status: 200,
      body: { paused: true, note: 'paused by olga: prices are wrong', zone: 'Europe/Berlin' },
    });
    const goes = await api.call('POST', '/v1/schedule/resume?namespace=overage', {
      body: { reason: 'prices are right' },
    });
    expect(goes).toMatchObject({
      body: {
        paused: false,
        next_ticks: [expect.any(String), expect.any(String), expect.any(String)],
      },
    });
    const removed = { status: 200, body: { removed: true } };
    expect(await api.call('DELETE', path, { as: ADA, body: { reason: 'by hand' } })).toMatchObject(
      removed,
    );
    expect(await api.call('DELETE', path, { as: ADA, body: { reason: 'by hand' } })).toMatchObject({
      body: { removed: false },
    });
    const logged = await stack.db
      .selectFrom('audit_log')
      .select(['actor', 'action', 'reason'])
      .where('namespace', '=', 'overage')
      .orderBy('id')
      .execute();
    expect(logged.map(({ actor, action, reason: why }) => [actor, action, why])).toEqual([
      ['ada', 'schedule.set_ordered', 'bill by itself'],
      ['ada', 'schedule.set_ordered', 'bill by itself'],
      ['olga', 'schedule.pause_ordered', 'prices are wrong'],
      ['olga', 'schedule.resume_ordered', 'prices are right'],
      ['ada', 'schedule.remove_ordered', 'by hand'],
      ['ada', 'schedule.remove_ordered', 'by hand'],
    ]);
  });

  it.each([
    ['resume', 3],
    ['set', 3],
    ['remove', 2],
  ] as const)('is not made otherwise again by a late repeat: %s', async (what, silentAt) => {
    const at = `/v1/schedule?namespace=late-${what}`;
    const made = { day: 2, time: '06:00', reason: 'x' };
    await api.call('PUT', at, { as: ADA, body: made });
    const paused = `/v1/schedule/pause?namespace=late-${what}`;
    await api.call('POST', paused, { body: { reason: 'prices are wrong' } });
    const orders = {
      resume: ['POST', `/v1/schedule/resume?namespace=late-${what}`, { reason: 'x' }],
      set: ['PUT', at, { ...made, day: 3 }],
      remove: ['DELETE', at, { reason: 'x' }],
    } as const;
    const [method, path, body] = orders[what];
    const order = { as: ADA, body, key: `late-${what}` };
    const flaky = await silentFrom(silentAt);
    expect(await flaky.call(method, path, order)).toMatchObject({ status: 503 });
    await flaky.close();
    expect(await api.call(method, path, order)).toMatchObject({
      status: 409,
      body: { code: 'order-overtaken' },
    });
    expect(await api.call('GET', at)).toMatchObject({ status: 200, body: { paused: true } });
    expect(await api.call('PUT', `${at}&dry_run=true`, { as: ADA, body: made })).toMatchObject({
      body: { action: 'unchanged' },
    });
    expect(await api.call(method, path, { as: ADA, body })).toMatchObject({ status: 200 });
  });

  it('answers 503 where Temporal falls silent in the middle of an order, and the same key orders it later', async () => {
    const flaky = await silentFrom(2);
    const order = { as: ADA, body: { reason: 'by hand' }, key: 'remove-1' };
    const lost = await flaky.call('DELETE', '/v1/schedule?namespace=silent', order);
    expect(lost).toMatchObject({ status: 503, body: { code: 'temporal-not-answering' } });
    expect(lost.headers.get('retry-after')).toBe('5');
    await flaky.close();
    const again = await api.call('DELETE', '/v1/schedule?namespace=silent', order);
    expect(again).toMatchObject({ status: 200, body: { removed: false } });
    expect(again.headers.get('idempotent-replayed')).toBeNull();
  });

  it('refuses a time that a clock change skips, and changes nothing', async () => {
    const body = { every: 'day', time: '02:30', zone: 'Europe/Berlin', reason: 'x' };
    expect(await api.call('PUT', path, { as: ADA, body })).toMatchObject({
      status: 400,
      body: { code: 'schedule-skips', detail: expect.stringContaining('Europe/Berlin') },
    });
    expect(await api.call('GET', path)).toMatchObject({ status: 404 });
  });

  it('is as one of them says when several are sent at once', async () => {
    const at = '/v1/schedule?namespace=several';
    const set = (day: number) =>
      api.call('PUT', at, { as: ADA, body: { day, time: '06:00', reason: 'x' } });
    const answers = await Promise.all([1, 2, 3, 4].map(set));
    expect(answers.map(({ status, body }) => (status === 200 ? 200 : body))).toEqual([
      200, 200, 200, 200,
    ]);
    await set(4);
    expect(await set(4)).toMatchObject({ status: 200, body: { action: 'unchanged' } });
  });

  it('is changed by admins, paused by operators, and never without a reason', async () => {
    const body = { reason: 'x' };
    expect(await api.call('PUT', path, { as: PAUL, body })).toMatchObject({ status: 403 });
    expect(await api.call('DELETE', path, { as: PAUL, body })).toMatchObject({ status: 403 });
    const pause = '/v1/schedule/pause';
    expect(await api.call('POST', pause, { as: VERA, body })).toMatchObject({ status: 403 });
    expect(await api.call('POST', pause, { body })).toMatchObject({ status: 404 });
    for (const wrong of [
      {},
      { day: 29, ...body },
      { zone: 'Mars/Base', ...body },
      { time: '6', ...body },
    ])
      expect(await api.call('PUT', path, { as: ADA, body: wrong })).toMatchObject({ status: 400 });
  });
});
