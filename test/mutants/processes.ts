import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** PostgreSQL and Temporal's servers end in this time once they are asked to. */
const GRACE_MS = 5_000;
/** What is kept of a process's output. */
const KEPT_CHARACTERS = 20_000;

const NEVER = new Promise<never>(() => {});
const underWay = new Set<ChildProcess>();
let stopping = false;

/** Runs a script of a copy until its end or the limit, and returns the end of what it printed. */
export async function runNode(
  root: string,
  args: readonly string[],
  limitMs: number,
): Promise<{ readonly said: string; readonly exitCode: number | null }> {
  if (stopping) return NEVER;
  // What it leaves behind when it is stopped goes with the copy.
  const temporary = path.join(path.dirname(root), 'tmp');
  mkdirSync(temporary, { recursive: true });
  // Ctrl-C is for this process alone, which ends what runs in order.
  const child = spawn(process.execPath, args, {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, CI: '1', TMPDIR: temporary },
  });
  underWay.add(child);
  let said = '';
  for (const stream of [child.stderr, child.stdout]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-KEPT_CHARACTERS);
    });
  }
  const limit = setTimeout(() => {
    for (const pid of child.pid === undefined ? [] : familyOf(child.pid)) signal(pid, 'SIGKILL');
  }, limitMs);
  try {
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    // Whoever stops everything also ends this process; until then nobody goes on.
    return stopping ? await NEVER : { said, exitCode };
  } finally {
    clearTimeout(limit);
    underWay.delete(child);
  }
}

/** Ends what is under way, with all that it has started, and lets nothing new begin. */
export async function stopAll(): Promise<void> {
  stopping = true;
  const pids = [...underWay].flatMap(({ pid }) => (pid === undefined ? [] : familyOf(pid)));
  // PostgreSQL ends its sessions and stops, Temporal's servers end at once.
  for (const pid of pids) signal(pid, 'SIGINT');
  const deadline = performance.now() + GRACE_MS;
  while (pids.some(isAlive) && performance.now() < deadline) await sleep(50);
  for (const pid of pids) signal(pid, 'SIGKILL');
}

/** A process and its descendants: servers are in groups of their own, so a group is not enough. */
function familyOf(pid: number): readonly number[] {
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const rows = table.split('\n').map((row) => row.trim().split(/\s+/).map(Number));
  const family = [pid];
  for (const parent of family) {
    for (const [child, itsParent] of rows) {
      if (itsParent === parent && child !== undefined) family.push(child);
    }
  }
  return family;
}

function isAlive(pid: number): boolean {
  return signal(pid, 0);
}

/** False when the process has ended. */
function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch {
    return false;
  }
}
