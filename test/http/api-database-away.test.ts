import Fastify from 'fastify';
import { expect, it } from 'vitest';
import { KEYED } from '../../src/http/api/keyed.ts';
import { answerErrors } from '../../src/http/api/problems.ts';
import { idempotency } from '../../src/http/idempotency/index.ts';
import { MemoryIdempotencyStore } from '../support/idempotent-memory-store.ts';
import { keepingLog } from '../support/webhooks.ts';

const shutdown = Object.assign(new Error('terminating connection due to administrator command'), {
  code: '57P01',
});

it.each([
  ['a server that shuts down', shutdown],
  ['a connection that broke', new Error('Connection terminated unexpectedly')],
  ['a refused connection', Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })],
  ['a pool without a free connection', new Error('timeout exceeded when trying to connect')],
])(
  'answers 503 for %s in the middle of an order, and the same key orders it again',
  async (_what, error) => {
    const app = Fastify();
    const { log } = keepingLog();
    answerErrors(app, log);
    await app.register(idempotency, {
      store: new MemoryIdempotencyStore(),
      principal: () => 'olga',
      policyUrl: '/idempotency',
    });
    let runs = 0;
    app.post('/order', { config: { idempotency: KEYED } }, async () => {
      runs += 1;
      if (runs === 1) throw error;
      return { run: runs };
    });
    const order = () =>
      app.inject({ method: 'POST', url: '/order', headers: { 'idempotency-key': 'k' } });
    const first = await order();
    expect(first.statusCode).toBe(503);
    expect(first.headers['retry-after']).toBe('5');
    expect(first.json()).toMatchObject({ code: 'database-not-answering' });
    expect(first.body).not.toContain(error.message);
    expect((await order()).json()).toEqual({ run: 2 });
    expect((await order()).headers['idempotent-replayed']).toBe('true');
    await app.close();
  },
);

it('answers 500 for a slip of our own, and keeps it', async () => {
  const app = Fastify();
  const { log } = keepingLog();
  answerErrors(app, log);
  app.get('/slip', async () => {
    throw new TypeError('x is not a function');
  });
  const answer = await app.inject({ method: 'GET', url: '/slip' });
  expect(answer.statusCode).toBe(500);
  expect(answer.json()).toMatchObject({ code: 'internal-error' });
  await app.close();
});
