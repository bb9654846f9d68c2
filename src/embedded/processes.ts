import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from './untyped.ts';

const POLL_MS = 50;
/** After SIGKILL the kernel only has to tear the process down; longer means it hangs in a disk wait. */
const KILL_TIMEOUT_MS = 10_000;

/** A process and when it started: a process id alone may by now belong to somebody else. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startedAt: string;
}

/** Whether a process with this id runs, whoever owns it. One that only waits to be reaped does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
  return !isZombie(pid);
}

/** In a container whose first process reaps nobody, what a killed parent left stays a zombie for ever. */
function isZombie(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.charAt(stat.lastIndexOf(')') + 2) === 'Z';
  } catch {
    return false;
  }
}

/** When the process started, as an opaque text that no later process with the same id shares. */
export async function startTimeOf(pid: number): Promise<string | undefined> {
  if (!isAlive(pid)) return undefined;
  try {
    const [bootId, fields] = await Promise.all([
      readFile('/proc/sys/kernel/random/boot_id', 'utf8'),
      statFields(pid),
    ]);
    return `${bootId.trim()}:${fields[22 - FIRST_FIELD] ?? ''}`;
  } catch {
    return await ps(pid, 'lstart=');
  }
}

/** The process group that a process is in, or undefined when it is gone or not to be seen. */
export async function processGroupOf(pid: number): Promise<number | undefined> {
  const fields = await statFields(pid).catch((): string[] => []);
  const group = fields[5 - FIRST_FIELD];
  return group === undefined ? undefined : Number(group);
}

const FIRST_FIELD = 3;

/** Of /proc/<pid>/stat, from field 3 (state) on: the name before it, in parentheses, may hold spaces. */
async function statFields(pid: number): Promise<string[]> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** The command line of a process, or undefined when it is gone or not to be seen. */
export async function commandLineOf(pid: number): Promise<string | undefined> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
  } catch {
    return await ps(pid, 'args=');
  }
}

function ps(pid: number, format: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile('ps', ['-o', format, '-p', String(pid)], (error, stdout) => {
      const text = stdout.trim();
      resolve(error || text === '' ? undefined : text);
    });
  });
}

/** Whether this very process still runs (and not another one that got its id). */
export async function isSameProcess(identity: ProcessIdentity): Promise<boolean> {
  const startedAt = await startTimeOf(identity.pid);
  return startedAt !== undefined && startedAt === identity.startedAt;
}

/** Sends a signal to the process group, or to the process alone when it leads no group. Gone is fine. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  if (!sendSignal(-pid, signal)) sendSignal(pid, signal);
}

/** Sends a signal; false when nobody has this id (any more). */
function sendSignal(target: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(target, signal);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return false;
    throw error;
  }
}

/**
 * Asks a process to stop and kills it with its group when it does not within the time.
 * Called for a process that is gone, or whose id another process has now, it does nothing.
 */
export async function stopProcess(
  identity: ProcessIdentity,
  how: { readonly signal: NodeJS.Signals; readonly timeoutMs: number },
): Promise<void> {
  if (!(await isSameProcess(identity))) return;
  sendSignal(identity.pid, how.signal);
  if (await goneWithin(identity, how.timeoutMs)) return;
  signalGroup(identity.pid, 'SIGKILL');
  if (!(await goneWithin(identity, KILL_TIMEOUT_MS))) {
    throw new Error(`process ${identity.pid} does not end, not even by SIGKILL`);
  }
}

async function goneWithin(identity: ProcessIdentity, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  while (await isSameProcess(identity)) {
    if (performance.now() > deadline) return false;
    await sleep(POLL_MS);
  }
  return true;
}
