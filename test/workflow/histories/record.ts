import { expect, it } from 'vitest';
import { BILLING_TASK_QUEUE, HOUSEKEEPING_ID, runWorkflowId, settleWorkflowId, shardWorkflowId } from '../../../src/domain/ids.ts';
import { insertCustomers, runRef, slotRef } from '../../support/engine.ts';
import { readHistories, storeHistory } from '../../support/histories.ts';
import { startQuietDevServer, startStack } from '../../support/stack.ts';
import { until } from '../../support/workflow-bench.ts';

const run = runRef('2026-09');
const root = runWorkflowId(run);
const order = { operator: 'olga', reason: 'new card' };

it('records a history of every workflow and every way it can go', async () => {
  const env = await startQuietDevServer();
  const stack = await startStack(env);
  await insertCustomers(stack.db, [
    { id: 'paid' },
    { id: 'declined', paymentMethod: 'pm_card_visa_chargeDeclined' },
    { id: 'free', amountMinor: 0 },
    { id: 'retried' },
    { id: 'settled' },
    { id: 'unknown' },
  ]);
  const only = (customer: string) => ({ endpoint: 'payment_intents.confirm', where: { chargeonce_customer: customer } });
  stack.simulator.setFaults({
    rules: [
      { id: 'retried', ...only('retried'), kind: 'status409', limit: 3 },
      { id: 'settled', ...only('settled'), kind: 'actThen500', limit: 1 },
      { id: 'unknown', ...only('unknown'), kind: 'fail500' },
    ],
  });
  const { temporal } = stack.client;
  const tickId = 'billing-tick-2026-09-01T00:00:00Z';
  await temporal.workflow.execute('billingTick', {
    workflowId: tickId,
    taskQueue: BILLING_TASK_QUEUE,
    args: [{ namespace: run.namespace, period: run.period, granularity: 'month', zone: 'UTC' }],
  });
  await until('charging', async () => ((await stack.client.progress(run))?.finished ?? 0) > 0);
  await stack.client.pause(run, order);
  await stack.client.resume(run, order);
  const totals = await stack.client.run(run).result();
  expect(totals.counts).toMatchObject({ charged: 3, declined: 1, skipped: 1, indeterminate: 1 });
  await stack.db.updateTable('customers').set({ payment_method_id: 'pm_card_visa' }).execute();
  await stack.client.rerunCustomer({ ...slotRef('declined', run), ...order, requestId: 'order-1' });
  await stack.client.run(run).result();

  /** Temporal's run ids of a workflow, oldest first. */
  const runsOf = async (workflowId: string): Promise<readonly string[]> => {
    const runs: { runId: string; startTime: Date }[] = [];
    for await (const one of temporal.workflow.list({ query: `WorkflowId = '${workflowId}'` })) runs.push(one);
    return runs.sort((a, b) => a.startTime.getTime() - b.startTime.getTime()).map((one) => one.runId);
  };
  await until('indexed', async () => (await runsOf(root)).length === 2 && (await runsOf(`${root}/declined`)).length === 2);
  const wanted: readonly [string, string, number][] = [
    ['tick', tickId, 0],
    ['run', root, 0],
    ['run-late-rerun', root, 1],
    ['run-rerun-by-activity', root, 1],
    ['shard', shardWorkflowId(run, 0), 0],
    ['settle', settleWorkflowId(run, '1'), 0],
    ['customer-charged', `${root}/paid`, 0],
    ['customer-declined', `${root}/declined`, 0],
    ['customer-rerun', `${root}/declined`, 1],
    ['customer-skipped', `${root}/free`, 0],
    ['customer-retried', `${root}/retried`, 0],
    ['customer-indeterminate', `${root}/settled`, 0],
    ['customer-settled', `${root}/settled`, 1],
    ['customer-still-unknown', `${root}/unknown`, 1],
  ];
  for (const [name, workflowId, nth] of wanted) {
    const runId = (await runsOf(workflowId))[nth];
    if (runId === undefined) throw new Error(`${workflowId} has no run ${nth}`);
    await storeHistory(temporal, { name, workflowId, runId });
  }
  await stack.close();
  await env.teardown();
  const stored = (await readHistories()).map((history) => history.name);
  expect(stored).toEqual(expect.arrayContaining(wanted.map(([name]) => name)));
});

it('records the sweep, and a look that sends nothing', async () => {
  const env = await startQuietDevServer();
  const stack = await startStack(env);
  await insertCustomers(stack.db, [{ id: 'paid' }, { id: 'unknown' }]);
  stack.simulator.setFaults({
    rules: [{ id: 'unknown', endpoint: 'payment_intents.*', kind: 'fail500', where: { chargeonce_customer: 'unknown' } }],
  });
  await stack.client.startRun(run, 'olga');
  await stack.client.run(run).result();
  expect(await stack.client.sweep({ everything: true })).toMatchObject({ looked: 1 });
  const { temporal } = stack.client;
  await storeHistory(temporal, { name: 'housekeeping', workflowId: `${HOUSEKEEPING_ID}-everything` });
  await stack.client.lookAtCustomer(slotRef('paid', run));
  await temporal.workflow.getHandle(`${root}/paid`).result();
  await storeHistory(temporal, { name: 'customer-looked', workflowId: `${root}/paid` });
  await stack.close();
  await env.teardown();
});
