import fastify, { type FastifyInstance } from 'fastify';
import type { Shop } from '../../harness/exhibit.ts';
import { charge, type Order } from '../charge.ts';

/** Keeps so many answers, those of the latest keys. */
class RecentAnswers extends Map<string, Promise<object>> {
  readonly #most: number;

  constructor(most: number) {
    super();
    this.#most = most;
  }

  override set(key: string, answer: Promise<object>): this {
    super.set(key, answer);
    const [oldest] = this.keys();
    if (this.size > this.#most && oldest !== undefined) this.delete(oldest);
    return this;
  }
}

/** A key that was answered is answered again, and one under way is waited for. */
export function api(shop: Shop, mostAnswers = 10_000): FastifyInstance {
  const app = fastify();
  const answers = new RecentAnswers(mostAnswers);
  app.post<{ Body: Order }>('/charges', async ({ body, headers }, reply) => {
    const key = String(headers['idempotency-key']);
    const answer = answers.get(key) ?? charge(shop, body);
    answers.set(key, answer);
    return reply.code(201).send(await answer);
  });
  return app;
}
