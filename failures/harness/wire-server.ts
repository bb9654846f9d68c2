import http, { type IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { once } from 'node:events';

/** One physical request as it came over the wire. */
export interface WireRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface WireReply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * What happens to one request: `close` cuts the connection after reading it, `forward` passes it on,
 * `forwardThenClose` passes it on and cuts the connection instead of answering, `forwardThen` passes it on and answers
 * something else, and `forwardAnd` passes it on and does something before it answers.
 */
export type WireAction =
  | WireReply
  | 'close'
  | 'forward'
  | 'forwardThenClose'
  | { readonly forwardThen: WireReply }
  | { readonly forwardAnd: () => void | Promise<void> }
  | { readonly raw: string; readonly status: number };

/** Decides what happens to a request; it may wait with that, for another request or for whatever else happens. */
export type WireScript = (request: WireRequest, count: number) => WireAction | Promise<WireAction>;

export interface WireServer {
  readonly url: string;
  readonly requests: WireRequest[];
  close(): Promise<void>;
}

/** An HTTP server that does what `script` says for each request, in front of `target` if one is given. */
export async function startWireServer(script: WireScript, target?: string): Promise<WireServer> {
  const requests: WireRequest[] = [];
  const answer = async (
    incoming: http.IncomingMessage,
    outgoing: http.ServerResponse,
  ): Promise<void> => {
    const request: WireRequest = {
      method: incoming.method ?? '',
      path: incoming.url ?? '',
      headers: incoming.headers,
      body: await text(incoming),
    };
    requests.push(request);
    let action = await script(request, requests.length);
    if (typeof action === 'object' && 'forwardThen' in action) {
      await passOn(request, target ?? '');
      action = action.forwardThen;
    }
    if (action === 'close') {
      incoming.socket.destroy();
      return;
    }
    if (typeof action === 'string' || 'forwardAnd' in action) {
      const reply = await passOn(request, target ?? '');
      if (typeof action === 'object') await action.forwardAnd();
      if (action === 'forwardThenClose') incoming.socket.destroy();
      else outgoing.writeHead(reply.status, reply.headers).end(reply.body);
      return;
    }
    if ('raw' in action) {
      outgoing.writeHead(action.status, {
        'Content-Type': 'application/json',
        'Request-Id': 'req_raw',
      });
      outgoing.end(action.raw);
      return;
    }
    outgoing.writeHead(action.status, {
      'Content-Type': 'application/json',
      'Request-Id': 'req_fake',
      ...action.headers,
    });
    outgoing.end(JSON.stringify(action.body));
  };
  const server = http.createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch((error: unknown) => {
      outgoing.writeHead(599).end(String(error));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
  const { port } = address;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function passOn(
  request: WireRequest,
  target: string,
): Promise<{ status: number; headers: Record<string, string>; body: Buffer }> {
  const {
    host: _host,
    connection: _connection,
    'content-length': _length,
    ...headers
  } = request.headers;
  const response = await fetch(`${target}${request.path}`, {
    method: request.method,
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, String(value)]),
    ),
    ...(request.method === 'GET' ? {} : { body: request.body }),
  });
  const body = Buffer.from(await response.arrayBuffer());
  const passed = Object.fromEntries(
    [...response.headers].filter(
      ([name]) =>
        ![
          'connection',
          'transfer-encoding',
          'content-length',
          'content-encoding',
          'keep-alive',
        ].includes(name),
    ),
  );
  return { status: response.status, headers: passed, body };
}
