import type { ServerResponse } from 'node:http';
import { bytesOf } from './payload.ts';

/** What a handler sent past the framework, by `reply.raw`. */
export interface RawAnswer {
  readonly status: number;
  /** as they were set or given to `writeHead` */
  readonly headers: Readonly<Record<string, unknown>>;
  /** null when it was larger than may be kept, or broke off */
  readonly body: Buffer | null;
  /** the connection ended before the answer did */
  readonly brokeOff: boolean;
}

type Call = (...args: readonly unknown[]) => unknown;

/**
 * Watches a response for what is written to it directly. `onAnswer` comes once, when such an answer has ended, or its
 * connection has; never for what the framework sends once `pass` was called.
 */
export class RawTap {
  readonly #response: ServerResponse;
  readonly #maxBytes: number;
  readonly #onAnswer: (answer: RawAnswer) => void;
  readonly #chunks: Buffer[] = [];
  #headers: Record<string, unknown> = {};
  #size = 0;
  #watching = true;

  constructor(response: ServerResponse, maxBytes: number, onAnswer: (answer: RawAnswer) => void) {
    this.#response = response;
    this.#maxBytes = maxBytes;
    this.#onAnswer = onAnswer;
    this.#watch('writeHead', (args) => this.#head(args));
    this.#watch('write', (args) => this.#chunk(args[0], args[1]));
    this.#watch('end', (args) => {
      this.#chunk(args[0], args[1]);
      this.#done(false);
    });
  }

  /** From now on the framework sends, and what it sends is known already. */
  pass(): void {
    this.#watching = false;
  }

  /** The handler is over and the connection too: whatever was written is all there will be. */
  brokeOff(): void {
    this.#done(true);
  }

  /** The handler has begun to answer by itself. */
  get began(): boolean {
    return this.#watching && this.#response.headersSent;
  }

  #watch(name: 'writeHead' | 'write' | 'end', see: (args: readonly unknown[]) => void): void {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- three overloaded methods, called with what they were given
    const original = this.#response[name].bind(this.#response) as Call;
    const watched: Call = (...args) => {
      if (this.#watching) see(args);
      return original(...args);
    };
    Object.defineProperty(this.#response, name, {
      value: watched,
      writable: true,
      configurable: true,
    });
  }

  #head(args: readonly unknown[]): void {
    const headers = args.find((arg) => typeof arg === 'object' && arg !== null);
    if (Array.isArray(headers)) {
      const flat: readonly unknown[] = headers.flat();
      for (let at = 0; at + 1 < flat.length; at += 2)
        this.#headers[String(flat[at]).toLowerCase()] = flat[at + 1];
    } else {
      for (const [name, value] of Object.entries(headers ?? {}))
        this.#headers[name.toLowerCase()] = value;
    }
  }

  #chunk(chunk: unknown, encoding: unknown): void {
    if (chunk === undefined || chunk === null || typeof chunk === 'function') return;
    const bytes = bytesOf(chunk, isEncoding(encoding) ? encoding : 'utf8');
    this.#size += bytes.length;
    if (this.#size <= this.#maxBytes) this.#chunks.push(bytes);
  }

  #done(brokeOff: boolean): void {
    if (!this.#watching) return;
    this.#watching = false;
    const kept = !brokeOff && this.#size <= this.#maxBytes;
    this.#onAnswer({
      status: brokeOff && !this.#response.headersSent ? 500 : this.#response.statusCode,
      headers: { ...this.#response.getHeaders(), ...this.#headers },
      body: kept ? Buffer.concat(this.#chunks) : null,
      brokeOff,
    });
  }
}

function isEncoding(encoding: unknown): encoding is BufferEncoding {
  return typeof encoding === 'string' && Buffer.isEncoding(encoding);
}
