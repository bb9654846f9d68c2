import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** What the proxy saw. A fault that never fired proves nothing. */
interface PostgresProxyStats {
  /** statements, or transactions, that were answered or whose answer was dropped */
  readonly exchanges: number;
  /** of these, the ones that wrote and were committed by the server */
  readonly commits: number;
  /** committed by the server, and the answer never reached the client */
  readonly dropped: number;
  /** connections that broke or were refused at the server's end */
  readonly refused: number;
}

export interface PostgresProxy {
  readonly port: number;
  /** The same database through the proxy. */
  through(databaseUrl: string): string;
  /**
   * Arms one drop: the next committed exchange whose statements and parameters contain every one of these texts loses
   * its answer. Resolves when it has happened. Armed twice, it happens twice.
   */
  dropNextReplyWhen(...includes: readonly string[]): Promise<void>;
  /** From now on each committed write loses its answer with this probability; 0 ends it. */
  dropRandomly(luck: { readonly rng: () => number; readonly probability: number }): void;
  stats(): PostgresProxyStats;
  close(): Promise<void>;
}

interface Order {
  readonly includes: readonly string[];
  readonly done: () => void;
}

/** Statements of ours that change something; COMMIT stands for what was written before it. */
const WRITES = /\b(?:insert|update|delete|commit|idempotency_claim)\b/i;
/** Enough for a statement with its parameters; a claim carries two request bodies. */
const MAX_EXCHANGE_TEXT = 64 * 1024;
/** The type byte and the length that begin each message of the server. */
const HEADER_BYTES = 5;

/**
 * A TCP proxy in front of PostgreSQL that can lose the answer to a statement after the server has executed and
 * committed it: the client sees its connection break, as if the network had failed at the worst moment. It reads the
 * server's message borders, so an answer is lost as a whole. Without TLS only, as on a loopback.
 */
export async function startPostgresProxy(options: {
  readonly upstreamPort: number;
}): Promise<PostgresProxy> {
  const orders: Order[] = [];
  const sockets = new Set<Socket>();
  const stats = { exchanges: 0, commits: 0, dropped: 0, refused: 0 };
  let luck: { readonly rng: () => number; readonly probability: number } | null = null;

  /** Decides over one exchange that the server has finished outside any transaction. */
  const losesAnswer = (text: string): boolean => {
    stats.exchanges += 1;
    if (!WRITES.test(text)) return false;
    stats.commits += 1;
    const at = orders.findIndex((order) => order.includes.every((part) => text.includes(part)));
    const [order] = at === -1 ? [] : orders.splice(at, 1);
    const lost = order !== undefined || (luck !== null && luck.rng() < luck.probability);
    if (lost) stats.dropped += 1;
    order?.done();
    return lost;
  };

  const server = createServer((client) => {
    const upstream = connect(options.upstreamPort, '127.0.0.1');
    upstream.once('error', () => (stats.refused += 1));
    join({ client, upstream, losesAnswer });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.once('close', () => sockets.delete(socket));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
  const { port } = address;
  return {
    port,
    through(databaseUrl) {
      const url = new URL(databaseUrl);
      url.host = `127.0.0.1:${port}`;
      return url.href;
    },
    dropNextReplyWhen(...includes) {
      const { promise, resolve } = Promise.withResolvers<void>();
      orders.push({ includes, done: resolve });
      return promise;
    },
    dropRandomly(next) {
      luck = next;
    },
    stats: () => ({ ...stats }),
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Couples one client with one server connection, both ways. */
function join(pair: {
  readonly client: Socket;
  readonly upstream: Socket;
  readonly losesAnswer: (text: string) => boolean;
}): void {
  const { client, upstream, losesAnswer } = pair;
  // What the client has said since the server was last idle: the statements of one exchange.
  let said = '';
  let undone = false;
  let held: Buffer = Buffer.alloc(0);
  const cut = (): void => {
    client.destroy();
    upstream.destroy();
  };
  client.on('data', (chunk: Buffer) => {
    if (said.length < MAX_EXCHANGE_TEXT) said += chunk.toString('latin1');
    upstream.write(chunk);
  });
  upstream.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const answer = readAnswer(held);
    // Until the server waits for the client again its bytes are held, so that an answer is lost whole.
    if (answer === null) return;
    undone ||= answer.undone;
    if (answer.idle) {
      if (!undone && losesAnswer(said)) return cut();
      // In a transaction the text grows until the COMMIT that decides over all of it.
      said = '';
      undone = false;
    }
    client.write(held);
    held = Buffer.alloc(0);
  });
  // Either side's end is the other one's: a stopped server must look stopped.
  for (const socket of [client, upstream]) {
    socket.on('error', cut);
    socket.on('close', cut);
  }
}

interface Answer {
  /** outside any transaction: what was written is committed */
  readonly idle: boolean;
  /** an error or a ROLLBACK: nothing was committed */
  readonly undone: boolean;
}

/** Reads whole messages; null while the last one is cut, or while more of them must follow. */
function readAnswer(bytes: Buffer): Answer | null {
  let undone = false;
  let last: { readonly type: string; readonly state: string } = { type: '', state: '' };
  for (let at = 0; at < bytes.length;) {
    if (at + HEADER_BYTES > bytes.length) return null;
    const next = at + 1 + bytes.readInt32BE(at + 1);
    if (next > bytes.length) return null;
    const type = String.fromCodePoint(bytes[at] ?? 0);
    const body = bytes.toString('latin1', at + HEADER_BYTES, next);
    if (type === 'E' || (type === 'C' && body.startsWith('ROLLBACK'))) undone = true;
    last = { type, state: body };
    at = next;
  }
  // R asks for the password, G for COPY data; an error while connecting is followed by nothing.
  if (!'ZRGE'.includes(last.type)) return null;
  return { idle: last.type === 'Z' && last.state === 'I', undone };
}
