import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { z } from 'zod';
import { waitFor } from '../support/cli.ts';

const HARNESS = fileURLToPath(new URL('harness/main.ts', import.meta.url));
/** It takes two minutes on two quiet cores; the rest is for a busy machine. */
const TIMEOUT_MS = 300_000;

const resultOf = z.object({
  verdict: z.string(),
  customers: z.number(),
  charged: z.number(),
  doubleCharged: z.number(),
  lost: z.number(),
  faultsFired: z.number(),
  faults: z.record(z.string(), z.number()),
  reasons: z.array(z.string()),
});

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const running = new Set<ChildProcess>();

// A test that ran out of time leaves its harness at work; interrupted, that one takes its processes along.
afterEach(async () => {
  for (const child of running) {
    child.kill('SIGINT');
    await once(child, 'close');
  }
}, 60_000);

/** Runs the harness as a user does, with a folder for temporary files of its own. */
async function chaos(args: readonly string[], folder: string, until?: RegExp): Promise<Ended> {
  const child = spawn(process.execPath, [HARNESS, ...args], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  child.once('close', () => running.delete(child));
  let stdout = '';
  let stderr = '';
  let interrupted = false;
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    if (interrupted || until?.test(stderr) !== true) return;
    interrupted = true;
    child.kill('SIGINT');
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout, stderr };
}

async function leftBehind(folder: string): Promise<string[]> {
  const { stdout } = await new Promise<{ stdout: string }>((resolve) => {
    const ps = spawn('ps', ['-eo', 'pid,args'], { stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    ps.stdout.setEncoding('utf8').on('data', (more: string) => (text += more));
    ps.once('close', () => resolve({ stdout: text }));
  });
  const processes = stdout.split('\n').filter((line) => line.includes(folder));
  return [...processes, ...(await readdir(folder))];
}

it(
  'charges nobody twice and loses nobody while workers, PostgreSQL, Temporal, the server and Stripe fail at random (S1, S2, S4)',
  { timeout: 2 * TIMEOUT_MS },
  async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'chaos-quick-'));
    const play = async () => {
      const ended = await chaos(['--profile', 'quick', '--json'], folder);
      const line = ended.stdout.trimEnd().split('\n').at(-1) ?? '';
      return { ...ended, result: resultOf.parse(JSON.parse(line)) };
    };
    const first = await play();
    // "unknown": a fault that was to come never did, on a machine that was too busy. The experiment is repeated, once.
    const repeated = first.result.verdict === 'unknown';
    if (repeated)
      process.stderr.write(`chaos is played again: ${first.result.reasons.join('; ')}\n`);
    const { code, stderr, result } = repeated ? await play() : first;
    // The seed and the whole report stand there.
    if (result.verdict !== 'pass') throw new Error(`${result.reasons.join('\n')}\n${stderr}`);
    expect(result).toMatchObject({ doubleCharged: 0, lost: 0, reasons: [] });
    expect(result.charged).toBeGreaterThan(result.customers / 2);
    expect(Object.values(result.faults).every((count) => count > 0)).toBe(true);
    expect(code).toBe(0);
    expect(await leftBehind(folder)).toEqual([]);
    await rm(folder, { recursive: true, force: true });
  },
);

it('leaves no process and no folder behind when the chaos is interrupted', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'chaos-stopped-'));
  const { code } = await chaos(['--customers', '20'], folder, /waiting for two workers/);
  expect(code).toBe(130);
  await waitFor(async () => (await leftBehind(folder)).length === 0, { timeoutMs: 40_000 });
  await rm(folder, { recursive: true, force: true });
});
