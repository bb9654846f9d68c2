import { readdir, readFile, readlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { commandLineOf, processGroupOf } from './processes.ts';

export interface PortWish {
  /** What the port is for, as it stands in messages: "PostgreSQL". */
  readonly label: string;
  /** Demanded by the user: taken means an error. */
  readonly explicit?: number | undefined;
  /** Tried in this order when nothing is demanded; after them any free port. */
  readonly preferred: readonly number[];
}

/** Chooses a port of 127.0.0.1. A demanded one that is taken is an error that names who holds it. */
export async function choosePort(wish: PortWish): Promise<number> {
  if (wish.explicit !== undefined) {
    if (await isPortFree(wish.explicit)) return wish.explicit;
    const holder = named(await portHolder(wish.explicit));
    throw new Error(
      `port ${wish.explicit}, demanded for ${wish.label}, is held by ${holder}; ` +
        `stop it, choose another port, or name none and a free one is taken`,
    );
  }
  for (const port of wish.preferred) {
    if (await isPortFree(port)) return port;
  }
  return await anyFreePort();
}

/** Whether a server could listen on this port of 127.0.0.1 now. */
export async function isPortFree(port: number): Promise<boolean> {
  return (await listenOnce(port)) !== undefined;
}

/** A port of 127.0.0.1 that was free a moment ago. */
export async function anyFreePort(): Promise<number> {
  const port = await listenOnce(0);
  if (port === undefined) throw new Error('this machine has no free port on 127.0.0.1');
  return port;
}

function listenOnce(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address();
      const bound = typeof address === 'object' && address !== null ? address.port : undefined;
      server.close(() => resolve(bound));
    });
  });
}

/**
 * Who listens on a port instead of a process that was to (or of another one in its group): "process 7 (redis)".
 * Undefined when it is ours, when nobody listens, and where that cannot be seen (no /proc).
 */
export async function strangerOn(port: number, group: number): Promise<string | undefined> {
  const inodes = await listeningInodes(port);
  if (inodes.size === 0 || (await holds(group, inodes))) return undefined;
  const holder = await portHolder(port);
  if (holder !== undefined && (await processGroupOf(holder.pid)) === group) return undefined;
  return named(holder);
}

interface PortHolder {
  readonly pid: number;
  readonly command: string;
}

function named(holder: PortHolder | undefined): string {
  return holder === undefined ? 'another process' : `process ${holder.pid} (${holder.command})`;
}

/** Who listens on a port, as far as this user may see it (Linux only). */
async function portHolder(port: number): Promise<PortHolder | undefined> {
  const inodes = await listeningInodes(port);
  if (inodes.size === 0) return undefined;
  for (const entry of await readdir('/proc')) {
    const pid = Number(entry);
    if (!Number.isSafeInteger(pid) || !(await holds(pid, inodes))) continue;
    return { pid, command: (await commandLineOf(pid))?.slice(0, 120) ?? 'unknown' };
  }
  return undefined;
}

/** Whether one of a process's descriptors is one of these sockets. */
async function holds(pid: number, inodes: ReadonlySet<string>): Promise<boolean> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  for (const descriptor of descriptors) {
    const link = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => '');
    if (inodes.has(link)) return true;
  }
  return false;
}

const TCP_LISTEN = '0A';

async function listeningInodes(port: number): Promise<Set<string>> {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const inodes = new Set<string>();
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const text = await readFile(table, 'utf8').catch(() => '');
    for (const line of text.split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/);
      if (fields[1]?.endsWith(wanted) === true && fields[3] === TCP_LISTEN) {
        inodes.add(`socket:[${fields[9] ?? ''}]`);
      }
    }
  }
  return inodes;
}
