import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { stopOrphans } from '../../../src/embedded/part-records.ts';
import { anyFreePort } from '../../../src/embedded/ports.ts';
import { isAlive } from '../../../src/embedded/processes.ts';
import { findStack, type ProcessRequest } from '../../../src/embedded/stack.ts';
import { echoPart, lease, newHome, pidOf, runCommand, supervisorPid } from './harness.ts';

let home: string;
let remove: () => Promise<void>;
let blocker: Server | undefined;
beforeEach(async () => {
  ({ home, remove } = await newHome());
});
afterEach(async () => {
  blocker?.close();
  blocker = undefined;
  await remove();
});

async function blockedPort(): Promise<number> {
  const server = createServer();
  blocker = server;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address: AddressInfo | string | null = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('it does not listen');
  return address.port;
}

async function answerOf(url: string | undefined): Promise<{ pid?: number; secret?: string }> {
  const answer: { pid?: number; secret?: string } = JSON.parse(
    await (await fetch(url ?? '')).text(),
  );
  return answer;
}

describe('ports', () => {
  test('a preferred port that is taken is avoided, told, and the new one kept for the next time', async () => {
    const port = await blockedPort();
    const told: string[] = [];
    const part = echoPart({ preferredPort: port });
    const first = await lease(home, [part], { onProgress: (message) => told.push(message) });
    const [status] = await first.status();
    expect(status?.port).not.toBe(port);
    expect(told).toContain(`port ${port} is taken: the echo listens on ${status?.port}`);
    await first.release();
    blocker?.close();

    const second = await lease(home, [part]);
    expect((await second.status())[0]?.port).toBe(status?.port);
    await second.release();
  });

  test('a demanded port that is taken is an error with the port and the process that holds it', async () => {
    const port = await blockedPort();
    const refused = lease(home, [echoPart({ port })]);
    await expect(refused).rejects.toThrow(
      new RegExp(`port ${port}, demanded for the echo, is held by process ${process.pid} \\(`),
    );
    expect(await supervisorPid(home)).toBeUndefined();
  });
});

describe('a port that another process takes between the choice and the start', () => {
  const program = fileURLToPath(new URL('./programs/port-loser.ts', import.meta.url));
  const strangerPid = async () => Number(await readFile(path.join(home, 'stranger'), 'utf8'));
  afterEach(async () => process.kill(await strangerPid(), 'SIGKILL'));

  test('is given up for another one; the stranger who answers there is not taken for the part', async () => {
    const marker = path.join(home, 'stranger');
    const told: string[] = [];
    const held = await lease(home, [echoPart({ args: [program, '{{port}}', marker] })], {
      onProgress: (message) => told.push(message),
    });
    const [status] = await held.status();
    const { pid } = await answerOf(status?.url);
    expect(pid).toBe(status?.pid);
    expect(pid).not.toBe(await strangerPid());
    expect(told.join('\n')).toMatch(/port \d+ is taken: the echo listens on \d+/);
    await held.release();
  });

  test('is an error that names who has it when this very port was demanded', async () => {
    const marker = path.join(home, 'stranger');
    const port = await anyFreePort();
    const refused = lease(home, [echoPart({ port, args: [program, '{{port}}', marker] })]);
    await expect(refused).rejects.toThrow(
      `port ${port}, which was free a moment ago, is now held by process`,
    );
  });
});

describe('a part that listens twice', () => {
  const second = { label: 'the other ear', preferredPort: 25_112 };
  // It says its second port, which it was told in SECRET.
  const twoEars = echoPart({ name: 'vault', env: { SECRET: '{{secondPort}}' }, second });

  test('gets two ports, keeps both for the next time, and tells them as the addresses of the vault', async () => {
    const first = await lease(home, [twoEars]);
    const { vaultUrl, vaultAdminUrl } = first.endpoints;
    const { secret } = await answerOf(vaultUrl);
    expect(vaultAdminUrl).toBe(`http://127.0.0.1:${secret}`);
    expect(vaultAdminUrl).not.toBe(vaultUrl);
    await first.release();

    const again = await lease(home, [twoEars]);
    expect(again.endpoints).toMatchObject({ vaultUrl, vaultAdminUrl });
    await again.release();
  });

  test('is refused by name when its second port was demanded and is taken', async () => {
    const port = await blockedPort();
    const refused = lease(home, [{ ...twoEars, second: { ...second, port } }]);
    await expect(refused).rejects.toThrow(`port ${port}, demanded for the other ear, is held by`);
  });
});

describe('a part that calls another', () => {
  const called = echoPart({
    name: 'vault',
    second: { label: 'the other ear', preferredPort: 25_112 },
  });
  // Says where the other is, and when it is stopped, whether that one still answers.
  const code = `
    const [port] = process.env.ITS.split(' ');
    process.on('SIGTERM', async () => {
      const answer = await fetch('http://127.0.0.1:' + port).then(() => 'answers', () => 'is gone');
      console.log('at my end it ' + answer);
      process.exit(0);
    });
    setInterval(() => {}, 1000);
    console.log('it is at ' + process.env.ITS);`;
  const caller: ProcessRequest = {
    kind: 'process',
    name: 'caller',
    command: process.execPath,
    args: ['-e', code],
    env: { ITS: '{{its.port}} {{its.secondPort}}' },
    calls: 'vault',
    ready: { kind: 'stdout-line', pattern: 'it is at' },
  };

  test('is told its ports though both are started at once, and is stopped before it', async () => {
    const held = await lease(home, [called, caller]);
    const { vaultUrl = '', vaultAdminUrl = '' } = held.endpoints;
    await held.release();
    const log = await readFile(path.join(home, 'logs', 'caller.log'), 'utf8');
    expect(log).toContain(`it is at ${new URL(vaultUrl).port} ${new URL(vaultAdminUrl).port}\n`);
    expect(log).toContain('at my end it answers');
  });

  test('finds it where it runs already, and is refused when nobody has asked for it', async () => {
    await expect(lease(home, [caller])).rejects.toThrow('vault is called by another part');
    const first = await lease(home, [called]);
    const second = await lease(home, [called, caller]);
    const log = await readFile(path.join(home, 'logs', 'caller.log'), 'utf8');
    expect(log).toContain(`it is at ${new URL(first.endpoints.vaultUrl ?? '').port} `);
    await second.release();
    await first.release();
  });
});

describe('a part', () => {
  test('is started again after kill -9, and counts it', async () => {
    const events: string[] = [];
    const held = await lease(home, [echoPart()], {
      onPart: ({ event, message }) => events.push(`${event}: ${message}`),
    });
    const before = await held.status();
    process.kill(pidOf(before, 'echo'), 'SIGKILL');
    await expect
      .poll(() => events)
      .toEqual(['restarted: the echo was ended by SIGKILL; started again']);
    const after = await held.status();
    expect(after[0]).toMatchObject({ state: 'running', restarts: 1, port: before[0]?.port });
    expect((await answerOf(after[0]?.url)).pid).toBe(pidOf(after, 'echo'));
    await held.release();
  });

  test('is given up with its last log lines when it ends five times in a row', async () => {
    const failed = Promise.withResolvers<string>();
    const code = `process.stdout.write('up\\n'); setTimeout(() => { throw new Error('no such queue') }, 50)`;
    const held = await lease(
      home,
      [
        echoPart({
          args: ['-e', code],
          ready: { kind: 'stdout-line', pattern: '^up$' },
        }),
      ],
      { onPart: ({ event, message }) => event === 'failed' && failed.resolve(message) },
    );
    const message = await failed.promise;
    expect(message).toContain('the echo ended 5 times within 30 s and is given up');
    expect(message).toContain('Error: no such queue');
    expect((await held.status())[0]).toMatchObject({ state: 'failed', restarts: 4 });

    const other = await lease(home, [echoPart()]);
    await other.release();
    expect((await held.status())[0]).toMatchObject({ state: 'running', restarts: 0 });
    await held.release();
  });

  test('that ends at its start is an error with its last log lines, and leaves nothing running', async () => {
    const refused = lease(home, [
      echoPart(),
      echoPart({ name: 'bad', args: ['-e', 'console.error("no such host"); process.exit(9)'] }),
    ]);
    await expect(refused).rejects.toThrow(
      /the bad did not start: ended with exit code 9\n.*bad\.log:\n.*no such host/s,
    );
    expect(await supervisorPid(home)).toBeUndefined();
  });

  test('with other settings is refused: the error names the setting, the process and the home, not the value', async () => {
    const command = runCommand(home, [echoPart({ env: { SECRET: 'one' } })]);
    const pid = pidOf((await command.first).parts, 'echo');
    const error: unknown = await lease(home, [echoPart({ env: { SECRET: 'two' } })]).catch(
      (reason: unknown) => reason,
    );
    const message = error instanceof Error ? error.message : '';
    for (const text of ['(env SECRET)', `process ${pid}`, home, `process ${command.child.pid}`]) {
      expect(message).toContain(text);
    }
    expect(message).not.toMatch(/one|two/);
    await command.finish();
  });

  test('that nobody else holds stops with its command, while shared ones go on', async () => {
    const longer = await lease(home, [echoPart()]);
    const shorter = await lease(home, [echoPart()]);
    await shorter.ensure([echoPart({ name: 'mine', preferredPort: 25_112 })]);
    const status = await shorter.status();
    await shorter.release();
    expect(isAlive(pidOf(status, 'mine'))).toBe(false);
    expect(isAlive(pidOf(status, 'echo'))).toBe(true);
    await longer.release();
    expect(isAlive(pidOf(status, 'echo'))).toBe(false);
  });

  test('that does not heed its stop signal is killed after its time', async () => {
    const code = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('up')`;
    const held = await lease(home, [
      echoPart({
        args: ['-e', code],
        ready: { kind: 'stdout-line', pattern: '^up$' },
        stopTimeoutMs: 300,
      }),
    ]);
    const pid = pidOf(await held.status(), 'echo');
    await held.release();
    expect(isAlive(pid)).toBe(false);
  });
});

describe('a command killed by kill -9 while its part still starts', () => {
  test('leaves neither the part nor the supervisor running', async () => {
    const command = runCommand(home, [
      echoPart({ ready: { kind: 'stdout-line', pattern: 'never said' } }),
    ]);
    await expect
      .poll(() => readdir(path.join(home, 'parts')).catch(() => []))
      .toEqual(['echo.json']);
    const record: { pid: number } = JSON.parse(
      await readFile(path.join(home, 'parts/echo.json'), 'utf8'),
    );
    await command.kill();
    await expect.poll(() => isAlive(record.pid)).toBe(false);
    await expect.poll(() => supervisorPid(home)).toBeUndefined();
  });
});

describe('a killed supervisor', () => {
  test('has its parts stopped by the release of the command that lost it', async () => {
    const lost = Promise.withResolvers<void>();
    const held = await lease(home, [echoPart()], { onLost: () => lost.resolve() });
    const pid = pidOf(await held.status(), 'echo');
    process.kill((await supervisorPid(home)) ?? 0, 'SIGKILL');
    await lost.promise;
    await held.release();
    expect(isAlive(pid)).toBe(false);
  });

  test('never has a process killed that merely got the id of one of its parts', async () => {
    const records = path.join(home, 'parts');
    await mkdir(records);
    const record = {
      name: 'worker',
      pid: process.pid,
      startedAt: 'another boot:1',
      stopSignal: 'SIGKILL',
      stopTimeoutMs: 1,
      order: 1,
    };
    await writeFile(path.join(records, 'worker.json'), JSON.stringify(record));
    expect(await stopOrphans(records)).toEqual([]);
    await expect(readFile(path.join(records, 'worker.json'))).rejects.toMatchObject({
      code: 'ENOENT',
    });
  });
});

describe('a home', () => {
  test('whose path is too long for a Unix socket serves its commands all the same', async () => {
    const deep = path.join(home, 'd'.repeat(120));
    const held = await lease(deep, [echoPart()]);
    expect((await held.status())[0]?.state).toBe('running');
    await held.release();
    expect(await supervisorPid(deep)).toBeUndefined();
  });

  test('without a running stack is said to have none, and none is started', async () => {
    const options = { home, cacheDir: home, env: process.env, parts: [] };
    expect(await findStack(options)).toBeUndefined();
    expect(await supervisorPid(home)).toBeUndefined();
    const held = await lease(home, [echoPart()]);
    const found = await findStack(options);
    expect((await found?.status())?.map(({ name }) => name)).toEqual(['echo']);
    await found?.release();
    expect((await held.status())[0]?.state).toBe('running');
    await held.release();
  });
});
