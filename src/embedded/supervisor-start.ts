import { spawn } from 'node:child_process';
import { closeSync, openSync, fstatSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createHome, type HomeLayout } from './home.ts';
import { textSince } from './readiness.ts';

/** Exit code of a supervisor that found another one holding the home. */
export const SUPERVISOR_BUSY_EXIT = 75;

/** A forerunner may still be stopping its parts: PostgreSQL alone may take 30 s, a worker 15 s before it. */
const CONNECT_TIMEOUT_MS = 90_000;
const RETRY_MS = 150;

/**
 * Connects to the supervisor of a home if one runs. Refuses a socket of another user, who would be told
 * our keys: the socket of a long home lies in a folder where anybody may create one.
 */
export async function connectSupervisor(socketPath: string): Promise<Socket | undefined> {
  const owner = await lstat(socketPath).then(
    (found) => found.uid,
    () => undefined,
  );
  const self = process.getuid?.();
  if (owner !== undefined && self !== undefined && owner !== self) {
    throw new Error(
      `${socketPath} belongs to another user (uid ${owner}): run as that user, or set CHARGEONCE_HOME to a folder of your own`,
    );
  }
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.once('connect', () => resolve(socket));
    socket.once('error', () => resolve(undefined));
  });
}

/**
 * Connects to the supervisor of a home and starts one when none runs. Two that do so at once end with the same
 * supervisor: the second one finds the home locked and goes. `greet` says whether the supervisor took us in.
 */
export async function reachSupervisor<Session>(
  layout: HomeLayout,
  env: Readonly<Record<string, string>>,
  greet: (socket: Socket) => Promise<Session | undefined>,
): Promise<Session> {
  await createHome(layout);
  const deadline = performance.now() + CONNECT_TIMEOUT_MS;
  let starting: Starting | undefined;
  for (;;) {
    const socket = await connectSupervisor(layout.socket);
    const session = socket === undefined ? undefined : await greet(socket);
    if (session !== undefined) return session;
    if (starting?.exitCode() !== undefined && starting.exitCode() !== SUPERVISOR_BUSY_EXIT) {
      throw new Error(
        `the supervisor of the embedded parts did not start: ${await starting.output()}`,
      );
    }
    if (starting === undefined || starting.exitCode() !== undefined) starting = start(layout, env);
    if (performance.now() > deadline) {
      throw new Error(
        `no supervisor of the embedded parts answers at ${layout.socket} after ${CONNECT_TIMEOUT_MS / 1000} s; ` +
          `see ${path.join(layout.logs, 'supervisor.log')}`,
      );
    }
    await sleep(RETRY_MS);
  }
}

interface Starting {
  exitCode(): number | undefined;
  output(): Promise<string>;
}

function start(layout: HomeLayout, env: Readonly<Record<string, string>>): Starting {
  const log = path.join(layout.logs, 'supervisor.log');
  const main = fileURLToPath(new URL('./supervisor-main.ts', import.meta.url));
  const descriptor = openSync(log, 'a', 0o600);
  const offset = fstatSync(descriptor).size;
  // In a session of its own: a terminal's Ctrl-C is for the command, which gives back its lease.
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', main, layout.home, JSON.stringify(env)],
    { detached: true, cwd: layout.home, env, stdio: ['ignore', descriptor, descriptor] },
  );
  closeSync(descriptor);
  let exitCode: number | undefined;
  child.once('error', () => {
    exitCode = -1;
  });
  child.once('exit', (code) => {
    exitCode = code ?? -1;
  });
  child.unref();
  return {
    exitCode: () => exitCode,
    output: async () => (await textSince(log, offset)).trim() || `see ${log}`,
  };
}
