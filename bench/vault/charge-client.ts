import { randomUUID } from 'node:crypto';
import http from 'node:http';

/** Sends create and confirm as a worker does, over kept sockets; throws when an answer is not 200. */
export class ChargeClient {
  readonly #url: URL;
  readonly #agent: http.Agent;
  readonly #authorization: string;
  #next = 0;

  constructor(url: string, key: string, sockets: number) {
    this.#url = new URL(url);
    this.#agent = new http.Agent({ keepAlive: true, maxSockets: sockets });
    this.#authorization = `Bearer ${key}`;
  }

  /** One charge: milliseconds of the create and of the confirm. */
  async charge(): Promise<readonly [number, number]> {
    this.#next += 1;
    const name = `c${this.#next}`;
    const body = new URLSearchParams({
      amount: '100',
      currency: 'usd',
      customer: `cus_${name}`,
      payment_method: 'pm_card_visa',
      'metadata[chargeonce_customer]': name,
    }).toString();
    const began = performance.now();
    const created = await this.#post('/v1/payment_intents', body);
    const between = performance.now();
    await this.#post(
      `/v1/payment_intents/${created}/confirm`,
      'off_session=true&payment_method=pm_card_visa',
    );
    return [between - began, performance.now() - between];
  }

  close(): void {
    this.#agent.destroy();
  }

  #post(path: string, body: string): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const request = http.request(
      {
        host: this.#url.hostname,
        port: this.#url.port,
        path,
        method: 'POST',
        agent: this.#agent,
        headers: {
          Authorization: this.#authorization,
          'Content-Type': 'application/x-www-form-urlencoded',
          'Content-Length': Buffer.byteLength(body),
          'Idempotency-Key': randomUUID(),
          'X-Attempt-Id': randomUUID(),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          const id = /"id":"(pi_\w+)"/.exec(text)?.[1];
          if (response.statusCode === 200 && id !== undefined) resolve(id);
          else reject(new Error(`${path}: ${response.statusCode ?? 0} ${text.slice(0, 300)}`));
        });
        response.on('error', reject);
      },
    );
    request.on('error', reject);
    request.end(body);
    return promise;
  }
}

/** Runs `work` so many times, so many at once. */
export async function crowd(
  times: number,
  atOnce: number,
  work: () => Promise<unknown>,
): Promise<void> {
  let left = times;
  const one = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
