import { spawn, type ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

/** PostgreSQL and Temporal's servers end in this time once they are asked to. */
const GRACE_MS = 5_000;
/** What is kept of a process's output. */
const KEPT_CHARACTERS = 20_000;

const underWay = new Set<ChildProcess>();
let stopping = false;

/** Runs a script of a copy until its end or the limit, and returns the end of what it printed. */
export async function runNode(
  root: string,
  args: readonly string[],
  limitMs: number,
): Promise<{ readonly said: string; readonly exitCode: number | null }> {
  if (stopping) throw new Error('stopped');
  // A group of its own: whatever the script has started is ended with it.
  const child = spawn(process.execPath, args, {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, CI: '1' },
  });
  underWay.add(child);
  let said = '';
  for (const stream of [child.stderr, child.stdout]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-KEPT_CHARACTERS);
    });
  }
  const limit = setTimeout(() => signal(child, 'SIGKILL'), limitMs);
  try {
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    return { said, exitCode };
  } finally {
    clearTimeout(limit);
    underWay.delete(child);
  }
}

/** Ends what is under way, and lets nothing new begin. */
export async function stopAll(): Promise<void> {
  stopping = true;
  for (const child of underWay) signal(child, 'SIGINT');
  const deadline = performance.now() + GRACE_MS;
  while (underWay.size > 0 && performance.now() < deadline) await sleep(50);
  for (const child of underWay) signal(child, 'SIGKILL');
}

function signal(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, name);
  } catch {
    // The group has just ended.
  }
}
