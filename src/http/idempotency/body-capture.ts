import type { Readable } from 'node:stream';

/** A request's body as its bytes went by. */
export interface CapturedBody {
  /** false: nobody has read it to its end, so nobody knows what it says */
  readonly whole: boolean;
  readonly tooLarge: boolean;
  readonly bytes: Buffer;
}

/** Listens to a body without reading it: whoever parses it makes it flow. Keeps no more than `maxBytes`. */
export function captureBody(payload: Readable, maxBytes: number): () => CapturedBody {
  const chunks: Buffer[] = [];
  let size = 0;
  let whole = false;
  // A listener alone would start the flow, and what flows before the parser listens is gone.
  payload.pause();
  payload.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size <= maxBytes) chunks.push(chunk);
  });
  payload.once('end', () => (whole = true));
  return () => ({ whole, tooLarge: size > maxBytes, bytes: Buffer.concat(chunks) });
}
