import fastify, { type FastifyInstance } from 'fastify';
import type { Shop } from '../../harness/exhibit.ts';
import { charge, type Order } from '../charge.ts';

/** No client may send a key again after that. */
const KEPT_MS = 24 * 3_600_000;

interface Kept {
  readonly answer: Promise<object>;
  readonly sinceMs: number;
}

/** Only age ends a key, never the room that it takes. What a restart forgets has to be in a database, though. */
export function api(shop: Shop, nowMs: () => number = Date.now): FastifyInstance {
  const app = fastify();
  const answers = new Map<string, Kept>();
  app.post<{ Body: Order }>('/charges', async ({ body, headers }, reply) => {
    const key = String(headers['idempotency-key']);
    for (const [old, { sinceMs }] of answers) {
      if (nowMs() - sinceMs < KEPT_MS) break;
      answers.delete(old);
    }
    const kept = answers.get(key) ?? { answer: charge(shop, body), sinceMs: nowMs() };
    answers.set(key, kept);
    return reply.code(201).send(await kept.answer);
  });
  return app;
}
