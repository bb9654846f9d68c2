import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { constants, gunzipSync } from 'node:zlib';

export interface TcpProxy {
  readonly address: string;
  /** From now on nothing that clients say arrives, while they believe it was sent. */
  swallow(): void;
  /** Breaks every connection, and lets new ones through again. */
  cut(): void;
  /** Whether this text is in what clients said and nobody heard, packed as gRPC packs it or not. */
  swallowed(text: string): boolean;
  close(): Promise<void>;
}

/** A TCP proxy that can turn into a black hole, for requests that are lost on their way. */
export async function startTcpProxy(upstreamPort: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let swallowing = false;
  let swallowed: Buffer = Buffer.alloc(0);
  const cutAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((client) => {
    const upstream = connect(upstreamPort, '127.0.0.1');
    client.on('data', (chunk: Buffer) => {
      if (swallowing) swallowed = Buffer.concat([swallowed, chunk]);
      else upstream.write(chunk);
    });
    upstream.on('data', (chunk: Buffer) => client.write(chunk));
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', end);
      socket.on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
  return {
    address: `127.0.0.1:${address.port}`,
    swallow() {
      swallowing = true;
    },
    cut() {
      cutAll();
      swallowing = false;
    },
    swallowed: (text) => unpacked(swallowed).some((bytes) => bytes.includes(text)),
    async close() {
      const closed = once(server, 'close');
      server.close();
      cutAll();
      await closed;
    },
  };
}

const GZIP = Buffer.from([0x1f, 0x8b, 0x08]);

/** The bytes as they are, and every gzip stream that begins in them. */
function unpacked(bytes: Buffer): Buffer[] {
  const found = [bytes];
  for (let at = bytes.indexOf(GZIP); at !== -1; at = bytes.indexOf(GZIP, at + 1)) {
    try {
      found.push(gunzipSync(bytes.subarray(at), { finishFlush: constants.Z_SYNC_FLUSH }));
    } catch {
      // Three bytes that only look like one, or one that is not whole yet.
    }
  }
  return found;
}
