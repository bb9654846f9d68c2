// oxlint-disable oxc/no-async-endpoint-handlers -- Fastify waits for its handlers
import rateLimit from '@fastify/rate-limit';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Claim } from '../../src/http/idempotency/index.ts';
import { idempotentApp, newKey, type IdempotentApp } from '../support/idempotent-app.ts';
import { MemoryIdempotencyStore } from '../support/idempotent-memory-store.ts';

let app: IdempotentApp;
let runs = 0;
let quota = 0;
let tenant = '';
const begun = Promise.withResolvers<void>();
const gate = Promise.withResolvers<void>();
const claims: Claim[] = [];

class WatchedStore extends MemoryIdempotencyStore {
  override claim(claim: Claim) {
    claims.push(claim);
    return super.claim(claim);
  }
}
const store = new WatchedStore();

beforeAll(async () => {
  app = await idempotentApp(store, (server) => {
    server.register(async (scope) => {
      await scope.register(rateLimit, {
        hook: 'preHandler',
        timeWindow: '1 hour',
        max: () => quota,
        keyGenerator: (request) => String(request.headers['x-tenant']),
      });
      scope.post('/charges', async (_request, reply) => reply.code(201).send({ run: (runs += 1) }));
      scope.post('/slow', async () => {
        begun.resolve();
        await gate.promise;
      });
    });
  });
});
afterAll(() => app.close());
beforeEach(() => {
  tenant = newKey();
});

const send = (key: string, path = '/charges', body = '{}') =>
  app.send(path, key, { body, headers: { 'x-tenant': tenant } });

describe('a quota behind the layer', () => {
  it('M15g: is not used by repeats, refusals and what is in flight', async () => {
    quota = 2;
    const [first, second, third] = [newKey(), newKey(), newKey()];
    expect((await send(first)).headers['x-ratelimit-remaining']).toBe('1');
    for (let repeat = 0; repeat < 5; repeat += 1) {
      const again = await send(first);
      expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true']);
    }
    expect((await send(first, '/charges', '[]')).status).toBe(422);
    const slow = send(second, '/slow');
    await begun.promise;
    expect((await send(second, '/slow')).status).toBe(409);
    gate.resolve();
    expect((await slow).headers['x-ratelimit-remaining']).toBe('0');
    expect((await send(third)).status).toBe(429);
    expect((await send(first)).headers['idempotent-replayed']).toBe('true');
  });

  it('stores nothing where it refuses with 429: the same key runs when there is room again', async () => {
    quota = 1;
    const key = newKey();
    expect((await send(newKey())).status).toBe(201);
    const before = runs;
    for (let repeat = 0; repeat < 2; repeat += 1) expect((await send(key)).status).toBe(429);
    expect(runs).toBe(before);
    const claim = claims.at(-1);
    if (claim === undefined) throw new Error('nothing was claimed');
    expect([claim.key, await store.look(claim, claim.fingerprint)]).toEqual([key, null]);
    quota = 10;
    expect((await send(key)).json()).toEqual({ run: before + 1 });
    expect((await send(key)).headers['idempotent-replayed']).toBe('true');
  });
});
