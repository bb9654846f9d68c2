import { request as nodeRequest, type IncomingHttpHeaders } from 'node:http';

/** An answer as it came over the wire. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
  json(): unknown;
}

export interface HttpCall {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
}

/** One request on a connection of its own: nothing is retried, followed or decoded. */
export function call(url: string, options: HttpCall = {}): Promise<HttpAnswer> {
  const { method = 'POST', body } = options;
  return new Promise((resolve, reject) => {
    const headers = Object.entries(options.headers ?? {}).map(
      ([name, value]): [string, string | string[]] => [
        name,
        typeof value === 'string' ? value : [...value],
      ],
    );
    const outgoing = nodeRequest(
      url,
      {
        method,
        agent: false,
        headers: {
          ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
          ...Object.fromEntries(headers),
        },
        ...(options.signal === undefined ? {} : { signal: options.signal }),
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.once('error', reject);
        incoming.once('end', () => {
          const bytes = Buffer.concat(chunks);
          const text = bytes.toString('utf8');
          resolve({
            status: incoming.statusCode ?? 0,
            headers: incoming.headers,
            bytes,
            text,
            json: () => JSON.parse(text),
          });
        });
      },
    );
    outgoing.once('error', reject);
    outgoing.end(body);
  });
}
