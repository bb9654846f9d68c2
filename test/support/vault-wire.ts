import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';

/** One physical request as it came to an upstream, to the byte. */
export interface Recorded {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

type Script = (request: Recorded, socket: net.Socket, count: number) => string | Buffer | null;

/**
 * An upstream that keeps every request to the byte and answers with raw bytes of the script's; null: the script deals
 * with the socket itself.
 */
export async function startRecorder(script: Script): Promise<{
  readonly url: string;
  readonly requests: Recorded[];
  close(): Promise<void>;
}> {
  const requests: Recorded[] = [];
  const server = http.createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { method = '', url = '', rawHeaders } = req;
      const request = { method, url, rawHeaders, body: Buffer.concat(chunks) };
      requests.push(request);
      const raw = script(request, req.socket, requests.length);
      if (raw === null) return;
      req.socket.end(raw);
      res.detachSocket(req.socket);
    });
    req.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    requests,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A whole HTTP answer with a JSON body. */
export function rawReply(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const all = {
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(text)),
    Connection: 'close',
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Said\r\n${lines.join('')}\r\n${text}`;
}

/** Sends raw bytes and gives what came back until the connection ended, or until `enough` says so. */
export async function sendRaw(
  port: number,
  bytes: string | Buffer,
  enough: (text: string) => boolean = () => false,
): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('error', () => {});
  socket.write(bytes);
  await new Promise<void>((resolve) => {
    socket.on('close', () => resolve());
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      if (enough(Buffer.concat(chunks).toString('latin1'))) resolve();
    });
  });
  socket.destroy();
  return Buffer.concat(chunks).toString('latin1');
}

function portOf(server: net.Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
  return address.port;
}
