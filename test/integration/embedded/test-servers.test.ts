import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import { startPostgres, testPostgres } from '../../support/postgres.ts';
import {
  startDevServerEnvironment,
  startTimeSkippingEnvironment,
} from '../../support/temporal-servers.ts';

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    const result = await client.query<Record<string, unknown>>(sql);
    return result.rows;
  } finally {
    await client.end();
  }
}

describe('the test PostgreSQL', () => {
  test('clones a template that was filled once', async () => {
    const postgres = await testPostgres();
    let fills = 0;
    const fill = async (url: string) => {
      fills += 1;
      await query(url, 'create table t (n int); insert into t values (7)');
    };
    const template = await postgres.template('filled', fill);
    await postgres.template('filled', fill);
    const [first, second] = await Promise.all([
      postgres.createDatabase({ template }),
      postgres.createDatabase({ template }),
    ]);
    await query(first.url, 'delete from t');
    expect(await query(second.url, 'select n from t')).toEqual([{ n: 7 }]);
    expect(fills).toBe(1);
  });

  test('keeps committed rows over kill -9, an immediate stop and a restart, on the same port', async () => {
    const postgres = await startPostgres();
    const { url } = await postgres.createDatabase();
    await query(url, 'create table t (n int)');
    const pids = [postgres.pid()];
    const ends = [() => postgres.kill(), () => postgres.immediateStop(), () => postgres.stop()];
    for (const [n, end] of ends.entries()) {
      await query(url, `insert into t values (${n})`);
      await end();
      await expect(query(url, 'select 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
      await postgres.start();
      pids.push(postgres.pid());
    }
    expect(await query(url, 'select n from t order by n')).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
    expect(new Set(pids).size).toBe(4);
  });

  test('listens on the loopback only, and asks for the password', async () => {
    const postgres = await testPostgres();
    const wrong = postgres.url().replace(/:[^:@/]+@/, ':wrong@');
    await expect(query(wrong, 'select 1')).rejects.toMatchObject({ code: '28P01' });
    expect(await query(postgres.url(), 'show listen_addresses')).toEqual([
      { listen_addresses: '127.0.0.1' },
    ]);
  });
});

describe('the test Temporal servers', () => {
  test('skip a year of sleep in the time-skipping environment', async () => {
    const environment = await startTimeSkippingEnvironment();
    try {
      const before = await environment.currentTimeMs();
      await environment.sleep('365 days');
      expect((await environment.currentTimeMs()) - before).toBeGreaterThanOrEqual(365 * 86_400_000);
    } finally {
      await environment.teardown();
    }
  });

  test('find a workflow by our search attributes in the dev server', async () => {
    const environment = await startDevServerEnvironment();
    try {
      const workflowId = randomUUID();
      await environment.client.workflow.start('anything', {
        taskQueue: workflowId,
        workflowId,
        searchAttributes: { BillingPeriod: ['2026-11'], BillingOutcome: ['charged'] },
      });
      const found = async () =>
        (
          await environment.client.workflow.count(
            `BillingPeriod = '2026-11' and BillingOutcome = 'charged'`,
          )
        ).count;
      while ((await found()) === 0) await sleep(50);
      expect(await found()).toBe(1);
    } finally {
      await environment.teardown();
    }
  });
});
