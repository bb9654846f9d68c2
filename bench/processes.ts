import { readdirSync, readFileSync } from 'node:fs';

/** Ticks per second of /proc's CPU times on Linux. */
const TICKS_PER_SECOND = 100;

/** CPU milliseconds of a process and all below it, as /proc counts them. Linux only. */
export function cpuMs(rootPid: number): number {
  let ticks = 0;
  for (const pid of withDescendants(rootPid)) {
    const fields = statFields(pid);
    if (fields === null) continue;
    // utime, stime, and those of children that have ended
    ticks += [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index] ?? 0), 0);
  }
  return (ticks * 1000) / TICKS_PER_SECOND;
}

/** Highest resident memory of a process so far, in MB. */
export function peakRssMb(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

function withDescendants(root: number): readonly number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    const parent = Number.isInteger(pid) ? statFields(pid)?.[1] : undefined;
    if (parent !== undefined) parents.set(pid, Number(parent));
  }
  const found = [root];
  for (const pid of found) {
    for (const [child, parent] of parents) if (parent === pid) found.push(child);
  }
  return found;
}

/** Fields of /proc/pid/stat after the command's name, which may hold blanks: [0] state, [1] parent, … */
function statFields(pid: number): readonly string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}
