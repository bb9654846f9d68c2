import { Client, Connection } from '@temporalio/client';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { isAlive } from '../../../src/embedded/processes.ts';
import { isRecord } from '../../../src/embedded/untyped.ts';
import { lease, newHome, pidOf, query, runCommand, supervisorPid } from './harness.ts';

const SERVERS = [{ kind: 'postgres' }, { kind: 'temporal' }] as const;

let home: string;
let remove: () => Promise<void>;
beforeEach(async () => {
  ({ home, remove } = await newHome());
});
afterEach(async () => {
  await remove();
});

async function supervisorOf(place: string): Promise<number> {
  const pid = await supervisorPid(place);
  if (pid === undefined) throw new Error('no supervisor runs');
  return pid;
}

describe('commands of one home', () => {
  test('share one stack when they start at once, and the last one to go stops it', async () => {
    const commands = [runCommand(home, SERVERS), runCommand(home, SERVERS)] as const;
    const [first, second] = await Promise.all(commands.map((command) => command.first));
    expect(first?.error ?? second?.error).toBeUndefined();
    expect(second?.endpoints).toEqual(first?.endpoints);
    const pids = [
      pidOf(first?.parts, 'postgres'),
      pidOf(first?.parts, 'temporal'),
      await supervisorOf(home),
    ];
    expect([pidOf(second?.parts, 'postgres'), pidOf(second?.parts, 'temporal')]).toEqual(
      pids.slice(0, 2),
    );

    await commands[0].finish();
    expect(pids.map(isAlive)).toEqual([true, true, true]);
    expect(await query(second?.endpoints?.databaseUrl, 'select 1 as one')).toEqual([{ one: 1 }]);

    await commands[1].finish();
    // Not "soon": when the command has returned, nothing of it is left.
    expect(pids.map(isAlive)).toEqual([false, false, false]);
  });

  test('leave nothing running when the only one is killed by kill -9', async () => {
    const command = runCommand(home, SERVERS);
    const { parts } = await command.first;
    const pids = [pidOf(parts, 'postgres'), pidOf(parts, 'temporal'), await supervisorOf(home)];
    await command.kill();
    await expect.poll(() => pids.map(isAlive), { timeout: 30_000 }).toEqual([false, false, false]);
  });

  test('find rows and workflows again after kill -9 of the supervisor, whose children are stopped', async () => {
    const before = await lease(home, SERVERS);
    const { databaseUrl, temporalAddress } = before.endpoints;
    await query(databaseUrl, 'create table t (n int); insert into t values (7)');
    const connection = await Connection.connect({ address: temporalAddress ?? '' });
    await new Client({ connection }).workflow.start('anything', {
      taskQueue: 'nobody',
      workflowId: 'billing-2026-11',
    });
    await connection.close();
    const status = await before.status();
    const orphans = [pidOf(status, 'postgres'), pidOf(status, 'temporal')];
    process.kill(await supervisorOf(home), 'SIGKILL');
    await expect(before.status()).rejects.toThrow('supervisor of the embedded parts is gone');
    expect(orphans.map(isAlive)).toEqual([true, true]);

    const after = await lease(home, SERVERS);
    expect(orphans.map(isAlive)).toEqual([false, false]);
    expect(after.endpoints).toEqual(before.endpoints);
    expect(await query(after.endpoints.databaseUrl, 'select n from t')).toEqual([{ n: 7 }]);
    const again = await Connection.connect({ address: after.endpoints.temporalAddress ?? '' });
    const handle = new Client({ connection: again }).workflow.getHandle('billing-2026-11');
    expect((await handle.describe()).status.name).toBe('RUNNING');
    await again.close();
    await after.release();
    await before.release();
  });

  test('keep their database in a home that is closed to every other user', async () => {
    await chmod(home, 0o700);
    const first = await lease(home, [{ kind: 'postgres' }]);
    await query(first.endpoints.databaseUrl, 'create table t (n int); insert into t values (7)');
    await first.release();
    const second = await lease(home, [{ kind: 'postgres' }]);
    expect(await query(second.endpoints.databaseUrl, 'select n from t')).toEqual([{ n: 7 }]);
    await second.release();
  });

  test('start PostgreSQL over the pid file of a killed one, when that id is another process by now', async () => {
    const first = await lease(home, [{ kind: 'postgres' }]);
    const [row] = await query(first.endpoints.databaseUrl, 'show data_directory');
    const folder = isRecord(row) ? String(row['data_directory']) : '';
    const lines = (await readFile(path.join(folder, 'postmaster.pid'), 'utf8')).split('\n');
    await first.release();
    await writeFile(
      path.join(folder, 'postmaster.pid'),
      [process.pid, ...lines.slice(1)].join('\n'),
    );
    const second = await lease(home, [{ kind: 'postgres' }]);
    expect((await second.status())[0]?.state).toBe('running');
    await second.release();
  });

  test('go on after kill -9 of PostgreSQL and of Temporal, on the same ports and files', async () => {
    const events: string[] = [];
    const held = await lease(home, SERVERS, {
      onPart: ({ event, name }) => events.push(`${name} ${event}`),
    });
    await query(held.endpoints.databaseUrl, 'create table t (n int); insert into t values (7)');
    const killed = await held.status();
    for (const name of ['postgres', 'temporal']) process.kill(pidOf(killed, name), 'SIGKILL');
    await expect
      .poll(() => events.toSorted(), { timeout: 30_000 })
      .toEqual(['postgres restarted', 'temporal restarted']);
    expect(await query(held.endpoints.databaseUrl, 'select n from t')).toEqual([{ n: 7 }]);
    const status = await held.status();
    expect(status.map(({ state, restarts, port }) => ({ state, restarts, port }))).toEqual(
      killed.map(({ port }) => ({ state: 'running', restarts: 1, port })),
    );
    expect(pidOf(status, 'postgres')).not.toBe(pidOf(killed, 'postgres'));
    await held.release();
  });
});
