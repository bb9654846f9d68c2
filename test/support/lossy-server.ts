import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { portOf } from '../../src/listening.ts';

/** What happens to one request: done and answered unless said. */
export type Step =
  | 'serve'
  /** the connection ends before anything is done */
  | 'lose'
  /** it is done, and the answer never comes */
  | 'dropReply'
  /** it is done, and the answer breaks off in its body */
  | 'cutReply'
  /** it is done, and the connection stays silent */
  | 'hang'
  /** nothing is done; answered like this */
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string };

export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly key: string | undefined;
  readonly attemptId: string | undefined;
  readonly contentType: string | undefined;
  readonly body: Buffer;
  readonly atMs: number;
}

/**
 * A server that does each key once, keeps its answer, and answers as badly as `plan` says: one step per request, then
 * it serves. `effects` counts what was done, `seen` is every request.
 */
export class LossyServer {
  readonly seen: Seen[] = [];
  readonly effects: string[] = [];
  readonly #stored = new Map<string, string>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  #plan: Step[] = [];
  url = '';

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.url = `http://127.0.0.1:${portOf(this.#server.address())}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** Forgets what was, and takes these steps for what comes. */
  reset(...plan: readonly Step[]): void {
    this.seen.length = 0;
    this.effects.length = 0;
    this.#stored.clear();
    this.#plan = [...plan];
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const key = request.headersDistinct['idempotency-key']?.join(', ');
    this.seen.push({
      method: request.method ?? '',
      url: request.url ?? '',
      key,
      attemptId: request.headersDistinct['x-attempt-id']?.join(', '),
      contentType: request.headers['content-type'],
      body,
      atMs: performance.now(),
    });
    const step = this.#plan.shift() ?? 'serve';
    if (step === 'lose') return void request.socket.destroy();
    if (typeof step === 'object')
      return void response.writeHead(step.status, step.headers ?? {}).end(step.body ?? '');
    const known = key === undefined ? undefined : this.#stored.get(key);
    const answer = known ?? this.#do(key, body);
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(answer),
      ...(known === undefined ? {} : { 'Idempotent-Replayed': 'true' }),
    };
    if (step === 'dropReply') return void request.socket.destroy();
    if (step === 'hang') return;
    response.writeHead(201, headers);
    if (step === 'serve') return void response.end(answer);
    response.write(answer.slice(0, 1), () => request.socket.destroy());
  }

  #do(key: string | undefined, body: Buffer): string {
    this.effects.push(body.toString());
    const answer = JSON.stringify({ done: this.effects.length, padding: 'x'.repeat(200_000) });
    if (key !== undefined) this.#stored.set(key, answer);
    return answer;
  }
}
