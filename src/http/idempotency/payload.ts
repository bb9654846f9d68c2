import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

/** What goes to the client, and what of it is kept: null when it is larger than may be. */
export interface Collected {
  readonly body: Buffer | null;
  readonly outgoing: unknown;
}

/**
 * Takes an answer's payload whole, whatever it is made of. A stream is read up to the cap before anything is sent, since
 * what the client sees must be what is stored. Throws what the stream throws.
 */
export async function collect(
  reply: FastifyReply,
  payload: unknown,
  maxBytes: number,
): Promise<Collected> {
  if (payload === undefined || payload === null)
    return { body: Buffer.alloc(0), outgoing: payload };
  if (typeof payload === 'string') {
    const tooLarge = payload.length > maxBytes || Buffer.byteLength(payload) > maxBytes;
    return { body: tooLarge ? null : Buffer.from(payload), outgoing: payload };
  }
  if (payload instanceof Uint8Array) {
    const body = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
    return { body: body.length > maxBytes ? null : body, outgoing: body };
  }
  if (payload instanceof Response) return collectResponse(reply, payload, maxBytes);
  if (payload instanceof Readable) return collectStream(payload, maxBytes);
  if (payload instanceof ReadableStream) return collectStream(payload, maxBytes);
  throw new TypeError('the answer is neither text, bytes, a stream nor a Response');
}

/** Fastify takes status and headers from a Response later than they are needed here. */
async function collectResponse(reply: FastifyReply, response: Response, maxBytes: number) {
  reply.code(response.status);
  for (const [name, value] of response.headers) reply.header(name, value);
  if (response.body === null) return { body: Buffer.alloc(0), outgoing: null };
  return collectStream(response.body, maxBytes);
}

async function collectStream(stream: AsyncIterable<unknown>, maxBytes: number): Promise<Collected> {
  const chunks: Buffer[] = [];
  let size = 0;
  const rest = stream[Symbol.asyncIterator]();
  for (;;) {
    const next = await rest.next();
    if (next.done === true) {
      const body = Buffer.concat(chunks);
      return { body, outgoing: body };
    }
    const chunk = bytesOf(next.value);
    chunks.push(chunk);
    size += chunk.length;
    if (size > maxBytes)
      return { body: null, outgoing: Readable.from(goOn(chunks, rest), { objectMode: false }) };
  }
}

async function* goOn(chunks: readonly Buffer[], rest: AsyncIterator<unknown>) {
  try {
    yield* chunks;
    for (;;) {
      const next = await rest.next();
      if (next.done === true) return;
      yield bytesOf(next.value);
    }
  } finally {
    await rest.return?.();
  }
}

/** Throws for what is no text and no bytes: a stream of objects cannot be an answer. */
export function bytesOf(chunk: unknown, encoding: BufferEncoding = 'utf8'): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk, encoding);
  if (chunk instanceof Uint8Array)
    return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError('a stream of an answer gave something that is neither text nor bytes');
}
