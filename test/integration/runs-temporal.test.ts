import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { temporalPlace } from '../../src/client/temporal-place.ts';
import { adoptEnvironment } from '../../src/db/adopt-environment.ts';
import { EnvironmentMismatch } from '../../src/db/environment.ts';
import { shardWorkflowId } from '../../src/domain/ids.ts';
import { insertCustomers, runRef } from '../support/engine.ts';
import { assertInvariants } from '../support/invariants.ts';
import { startQuietDevServer, startStack, type Stack } from '../support/stack.ts';
import { gate, until } from '../support/workflow-bench.ts';

let env: TestWorkflowEnvironment | undefined;
let stack: Stack | undefined;

afterEach(async () => {
  await stack?.close();
  await env?.teardown();
  stack = undefined;
  env = undefined;
});

const people = (n: number) =>
  Array.from({ length: n }, (_, i) => ({ id: `p${String(i).padStart(3, '0')}` }));

describe('a shard whose history grows too long', () => {
  const short = ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=120'];

  it('S8: continues as new and charges everybody once', async () => {
    env = await startQuietDevServer({ extraArgs: short });
    stack = await startStack(env);
    const run = runRef('2025-03');
    await insertCustomers(stack.db, people(90));
    await stack.client.startRun(run, 'test');
    const totals = await stack.client.run(run).result();
    expect(totals).toMatchObject({ open: 0, counts: { charged: 90 } });
    const { count } = await stack.client.temporal.workflow.count(
      `WorkflowId = '${shardWorkflowId(run, 0)}' AND ExecutionStatus = 'ContinuedAsNew'`,
    );
    expect(count).toBeGreaterThan(0);
    await assertInvariants({
      databaseUrl: stack.databaseUrl,
      simulator: stack.simulator,
      temporal: stack.client.temporal,
      run,
    });
  });

  it('stays paused over the continuation', async () => {
    env = await startQuietDevServer({ extraArgs: short });
    stack = await startStack(env, { workers: 0 });
    const hold = gate();
    await stack.addWorker({
      crashPoint: (point) => (point === 'beforeCreateSent' ? hold.opened : Promise.resolve()),
    });
    const run = runRef('2025-04');
    await insertCustomers(stack.db, people(110));
    await stack.client.startRun(run, 'test');
    const claimed = async () =>
      (await stack?.db.selectFrom('billing_charges').select('customer_id').execute())?.length ?? 0;
    await until('a full window', async () => (await claimed()) === 50);
    await stack.client.pause(run, { operator: 'olga', reason: 'wait' });
    hold.open();
    await until(
      'all in flight charged',
      () => stack?.simulator.ledger().groups.filter((group) => group.succeeded === 1).length === 50,
    );
    const { temporal } = stack.client;
    await until(
      'continued',
      async () =>
        (
          await temporal.workflow.count(
            `WorkflowId = '${shardWorkflowId(run, 0)}' AND ExecutionStatus = 'ContinuedAsNew'`,
          )
        ).count > 0,
    );
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(await claimed()).toBe(50);
    await stack.client.resume(run, { operator: 'olga', reason: 'go on' });
    expect((await stack.client.run(run).result()).counts.charged).toBe(110);
  });
});

describe('a Temporal server that forgets everything in the middle of a run', () => {
  it('charges nobody twice when the whole period is run again on a new one', async () => {
    env = await startQuietDevServer();
    stack = await startStack(env, { simulator: { latencyMs: 30 } });
    const run = runRef('2025-05');
    await insertCustomers(stack.db, people(60));
    await stack.client.startRun(run, 'test');
    const { simulator, databaseUrl } = stack;
    await until(
      'half of it is charged',
      () => simulator.ledger().groups.filter((group) => group.succeeded === 1).length > 20,
    );
    // In memory: with the process go all histories, open and closed.
    const abandoned = stack;
    await env.teardown();
    env = await startQuietDevServer();
    const again = await startStack(env, { adopt: { databaseUrl, simulator }, workers: 0 });
    stack = again;
    // Another Temporal than the database was bound to: nobody bills there before somebody says so.
    await expect(again.addWorker()).rejects.toThrow(EnvironmentMismatch);
    const { workflowService } = again.client.temporal;
    const adopted = await adoptEnvironment(
      again.db,
      {
        account: again.deps.account,
        liveMode: false,
        temporal: await temporalPlace(workflowService, 'default'),
      },
      { operator: 'olga', reason: 'Temporal lost its file', accountChanged: false },
    );
    expect(adopted.kind).toBe('adopted');
    await again.addWorker();
    expect((await again.client.startRun(run, 'again')).kind).toBe('started');
    const totals = await again.client.run(run).result();
    expect(totals).toMatchObject({ open: 0, counts: { charged: 60 } });
    await assertInvariants({ databaseUrl, simulator, temporal: again.client.temporal, run });
    await again.close();
    stack = abandoned;
  });
});
