import { EventEmitter, once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { WebSocket, WebSocketServer } from 'ws';
import type { Customer, Shop } from '../harness/exhibit.ts';

const RECONNECT_MS = 10;
/** Somebody who never comes through is told so. */
const MAX_CONNECTS = 200;

/** A connection that is made again whenever it breaks, until whoever uses it closes it. */
export class LastingConnection extends EventEmitter<{
  open: [WebSocket];
  message: [string];
  error: [Error];
}> {
  readonly #url: string;
  #socket: WebSocket;
  #connects = 0;
  #closed = false;

  constructor(url: string) {
    super();
    this.#url = url;
    this.#socket = this.#connect();
  }

  #connect(): WebSocket {
    this.#connects += 1;
    const socket = new WebSocket(this.#url);
    socket.on('open', () => this.emit('open', socket));
    socket.on('message', (data: Buffer) => this.emit('message', data.toString()));
    // 'close' follows.
    socket.on('error', () => {});
    socket.on('close', () => {
      if (this.#closed) return;
      if (this.#connects === MAX_CONNECTS) {
        this.emit('error', new Error(`${this.#url} cut ${MAX_CONNECTS} connections`));
        return;
      }
      setTimeout(() => {
        if (!this.#closed) this.#socket = this.#connect();
      }, RECONNECT_MS);
    });
    return socket;
  }

  close(): void {
    this.#closed = true;
    this.#socket.terminate();
  }
}

/** A server for connections, on this machine. */
export interface Listening {
  readonly server: WebSocketServer;
  /** a customer's address has its id as the path */
  readonly url: string;
  /** how many connections there were so far */
  readonly connections: () => number;
  /** Breaks what is connected, as a network does: without a word. */
  readonly cut: () => void;
  readonly close: () => Promise<void>;
}

export async function listen(): Promise<Listening> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  let connections = 0;
  server.on('connection', () => {
    connections += 1;
  });
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
  const cut = (): void => {
    for (const socket of server.clients) socket.terminate();
  };
  return {
    server,
    url: `ws://127.0.0.1:${address.port}`,
    connections: () => connections,
    cut,
    async close() {
      const closed = [server, ...server.clients].map((open) => once(open, 'close'));
      server.close();
      cut();
      await Promise.all(closed);
    },
  };
}

/** Who has connected. */
export function customerOf(shop: Shop, { url }: IncomingMessage): Customer {
  const customer = shop.customers.find(({ id }) => `/${id}` === url);
  if (customer === undefined) throw new Error(`nobody is at ${url}`);
  return customer;
}
