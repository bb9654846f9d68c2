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
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`cannot be run: ${error.message}`));
    child.once('exit', (code, signal) => {
      resolve(`ended at start (${signal ?? `exit code ${code}`})`);
    });
  });
  const started = opensPort(port, START_TIMEOUT_MS);
  const why = await Promise.race([ended, started]);
  child.kill('SIGKILL');
  await ended;
  return why;
}

async function opensPort(port: number, timeoutMs: number): Promise<string | undefined> {
  const deadline = performance.now() + timeoutMs;
  while (performance.now() < deadline) {
    if (await accepts(port)) return undefined;
    await sleep(POLL_MS);
  }
  return `did not open its port within ${timeoutMs / 1000} s`;
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
