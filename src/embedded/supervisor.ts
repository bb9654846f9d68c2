import { chmod, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tryLock } from './home-lock.ts';
import { createHome, homeLayout } from './home.ts';
import { PartShelf, type Holder } from './part-shelf.ts';
import { stopOrphans } from './part-records.ts';
import {
  isClientMessage,
  onMessages,
  PROTOCOL_VERSION,
  send,
  type ClientMessage,
} from './protocol.ts';

/** The command that started us connects at once; when it was killed before that, nobody else would end us. */
const FIRST_LEASE_TIMEOUT_MS = 15_000;

export interface SupervisorOptions {
  readonly home: string;
  /** The base environment of every part. */
  readonly env: Readonly<Record<string, string>>;
  readonly log: (message: string) => void;
  /** Resolves the run early, as a signal does. */
  readonly stop: AbortSignal;
}

/**
 * Holds the parts of one home until the last command has gone, however it went, then stops them in reverse order.
 * Answers `busy` at once when another supervisor has the home.
 */
export async function runSupervisor(options: SupervisorOptions): Promise<'busy' | 'done'> {
  const layout = homeLayout(options.home);
  await createHome(layout);
  const lock = tryLock(layout.lock);
  if (lock === undefined) return 'busy';
  try {
    const orphans = await stopOrphans(layout.parts);
    if (orphans.length > 0) options.log(`stopped what was left running: ${orphans.join(', ')}`);
    await rm(layout.socket, { force: true });
    const shelf = new PartShelf(layout, options.env);
    await serve(layout.socket, shelf, options);
    return 'done';
  } finally {
    await rm(layout.socket, { force: true });
    lock.release();
  }
}

interface Lease extends Holder {
  readonly socket: Socket;
  commandPid: number;
  dropped: Promise<void> | undefined;
}

async function serve(
  socketPath: string,
  shelf: PartShelf,
  options: SupervisorOptions,
): Promise<void> {
  const over = Promise.withResolvers<void>();
  const leases = new Set<Lease>();
  const drops = new Set<Promise<void>>();
  /** Connections whose command waits for the end. */
  const closing = new Set<Socket>();
  let ending = false;
  const server = createServer();

  function end(): void {
    if (ending) return;
    ending = true;
    // A command that comes now is turned away at once, and starts a new supervisor when we are gone.
    server.close();
    over.resolve();
  }

  function drop(lease: Lease): Promise<void> {
    leases.delete(lease);
    if (leases.size === 0) end();
    lease.dropped ??= shelf.drop(lease).catch((error: unknown) => {
      options.log(`could not stop a part: ${String(error)}`);
    });
    drops.add(lease.dropped);
    return lease.dropped;
  }

  server.on('connection', (socket) => {
    socket.on('error', () => undefined);
    if (ending) {
      socket.destroy();
      return;
    }
    const lease = leaseOf(socket);
    leases.add(lease);
    socket.on('close', () => void drop(lease));
    onMessages(socket, isClientMessage, (message) => {
      void answer(message, { lease, shelf, drop, closing, isEnding: () => ending });
    });
    send(socket, { kind: 'hello', pid: process.pid, protocol: PROTOCOL_VERSION });
  });

  await listen(server, socketPath);
  const nobody = setTimeout(() => {
    if (leases.size === 0) end();
  }, FIRST_LEASE_TIMEOUT_MS);
  options.stop.addEventListener('abort', () => {
    for (const lease of leases) void drop(lease);
    end();
  });
  await over.promise;
  clearTimeout(nobody);
  await Promise.all(drops);
  // Left open until here: for the commands, the end of the connection means that all is stopped.
  for (const lease of closing) lease.destroySoon();
}

function leaseOf(socket: Socket): Lease {
  const lease: Lease = {
    socket,
    commandPid: 0,
    dropped: undefined,
    pid: () => lease.commandPid,
    progress: (message) => send(socket, { kind: 'progress', message }),
    partEvent: (event, name, message) => send(socket, { kind: 'part', event, name, message }),
  };
  return lease;
}

async function answer(
  message: ClientMessage,
  context: {
    readonly lease: Lease;
    readonly shelf: PartShelf;
    readonly closing: Set<Socket>;
    readonly drop: (lease: Lease) => Promise<void>;
    readonly isEnding: () => boolean;
  },
): Promise<void> {
  const { lease, shelf, drop, closing, isEnding } = context;
  const { id } = message;
  try {
    switch (message.ask) {
      case 'ensure':
        lease.commandPid = message.pid;
        await shelf.hold(lease, message.parts);
        break;
      case 'status':
        break;
      case 'release':
        closing.add(lease.socket);
        await drop(lease);
        break;
      default:
        message satisfies never;
    }
    const endpoints = shelf.endpoints(lease);
    send(lease.socket, {
      kind: 'answer',
      id,
      answer: { endpoints, parts: shelf.status(), ending: isEnding() },
    });
    if (message.ask === 'release' && !isEnding()) {
      closing.delete(lease.socket);
      lease.socket.end();
    }
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    send(lease.socket, { kind: 'refusal', id, message: text });
  }
}

function listen(server: Server, socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(socketPath, () => {
      server.off('error', reject);
      chmod(socketPath, 0o600).then(resolve, reject);
    });
  });
}
