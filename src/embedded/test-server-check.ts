import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { anyFreePort } from './ports.ts';

const START_TIMEOUT_MS = 10_000;
const POLL_MS = 50;

/**
 * Why this file does not start as a test server, or undefined when it did. The test server has no
 * `--version`; that it opens its port is the proof we can get. It is stopped again in every case.
 */
export async function startsAsTestServer(file: string): Promise<string | undefined> {
  const port = await anyFreePort();
  const child = spawn(file, [String(port)], { stdio: 'ignore', env: {} });
  let ended: string | undefined;
  const closed = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      ended = `cannot be run: ${error.message}`;
      resolve();
    });
    child.once('exit', (code, signal) => {
      ended ??= `ended at start (${signal ?? `exit code ${code}`})`;
      resolve();
    });
  });
  try {
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (ended === undefined && performance.now() < deadline) {
      if (await accepts(port)) return undefined;
      await sleep(POLL_MS);
    }
    return ended ?? `did not open its port within ${START_TIMEOUT_MS / 1000} s`;
  } finally {
    if (ended === undefined) child.kill('SIGKILL');
    await closed;
  }
}

/** Whether something accepts connections on this port of 127.0.0.1. */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const answer = (value: boolean) => {
      socket.destroy();
      resolve(value);
    };
    socket.setTimeout(1_000, () => answer(false));
    socket.once('connect', () => answer(true));
    socket.once('error', () => answer(false));
  });
}
