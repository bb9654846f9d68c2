import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { newUserAction } from '../../src/http/idempotency-client/index.ts';
import { idempotentApp, postgresStore, type IdempotentApp } from '../support/idempotent-app.ts';
import { codeOf, MemoryStorage, post, sender } from '../support/idempotency-client.ts';

// The client against the layer itself; what the client does by itself is tested in the unit tests.

/** What becomes of the answers that leave the server, in their order; then they arrive. */
let losses: boolean[] = [];
const effects: string[] = [];
let open: () => void = () => {};
let gate: Promise<void> = Promise.resolve();

let database: Awaited<ReturnType<typeof postgresStore>>;
let server: IdempotentApp;

beforeAll(async () => {
  database = await postgresStore();
  server = await idempotentApp(database.store, (app) => {
    // Behind the layer: what is lost here has been done and stored.
    app.addHook('onSend', async (request) => {
      if (losses.shift() === true) request.raw.socket.destroy();
    });
    app.post<{ Body: { order: string } }>('/pay', async (request, reply) => {
      effects.push(request.body.order);
      await gate;
      return reply.code(201).send({ paid: request.body.order });
    });
    app.post('/declines', async (_request, reply) => {
      effects.push('declined');
      return reply.code(402).send({ declined: true });
    });
    app.post('/breaks', async () => {
      effects.push('broken');
      throw new Error('after the effect');
    });
  });
});

afterAll(async () => {
  await server.close();
  await database.close();
});

beforeEach(() => {
  losses = [];
  effects.length = 0;
  server.events.length = 0;
  gate = Promise.resolve();
});

const send = sender({ maxAttempts: 12, maxDelayMs: 20 });
const order = (name: string) => post(JSON.stringify({ order: name }));

it('pays once whichever answers get lost, and knows so in the end', async () => {
  let number = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 6 }), async (plan) => {
      number += 1;
      losses = [...plan];
      effects.length = 0;
      const name = `order-${number}`;
      const answer = await send(`${server.url}/pay`, { ...order(name), action: newUserAction() });
      const arrives = plan.indexOf(false);
      const attempts = (arrives === -1 ? plan.length : arrives) + 1;
      expect(answer).toMatchObject({
        status: 201,
        attempts,
        replayed: attempts > 1,
        settled: true,
      });
      expect(await answer.json()).toEqual({ paid: name });
      expect(effects).toEqual([name]);
    }),
    { numRuns: 25 },
  );
});

it('waits for a handler that is slower than an attempt, and pays once', async () => {
  ({ promise: gate, resolve: open } = Promise.withResolvers<void>());
  const patient = sender({ attemptTimeoutMs: 150, maxAttempts: 50, deadlineMs: 20_000 });
  const answer = patient(`${server.url}/pay`, { ...order('slow'), action: newUserAction() });
  await expect.poll(() => server.events).toContain('refusedInFlight');
  open();
  expect(await answer).toMatchObject({ status: 201, replayed: true });
  expect(effects).toEqual(['slow']);
});

it('pays once for two clicks and a reload of the page, all at the same time', async () => {
  const storage = new MemoryStorage();
  const click = () =>
    send(`${server.url}/pay`, {
      ...order('clicked'),
      action: newUserAction({ storage, name: 'pay' }),
    });
  ({ promise: gate, resolve: open } = Promise.withResolvers<void>());
  const clicks = [click(), click(), click()];
  await expect.poll(() => effects.length).toBe(1);
  open();
  const answers = await Promise.all(clicks);
  expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
  expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
  expect(effects).toEqual(['clicked']);
  expect(storage.entries.size).toBe(0);
});

it('takes a stored refusal for the end of the action, and a stored failure not', async () => {
  const storage = new MemoryStorage();
  const begin = (name: string) => newUserAction({ storage, name });
  losses = [true];
  const declined = await send(`${server.url}/declines`, { ...order('a'), action: begin('a') });
  expect(declined).toMatchObject({ status: 402, replayed: true, settled: true });
  losses = [true];
  const { key } = begin('b');
  const broken = await send(`${server.url}/breaks`, { ...order('b'), action: begin('b') });
  expect(broken).toMatchObject({ status: 500, replayed: true, settled: false });
  expect(begin('b').key).toBe(key);
  expect(effects).toEqual(['declined', 'broken']);
});

it('is refused by the layer too where the client could not know of the other request', async () => {
  const storage = new MemoryStorage();
  const key = 'made with the form';
  const first = await send(`${server.url}/pay`, {
    ...order('one'),
    action: newUserAction({ key }),
  });
  expect(first.status).toBe(201);
  const elsewhere = newUserAction({ key, storage, name: 'pay' });
  const second = await send(`${server.url}/pay`, { ...order('two'), action: elsewhere });
  expect(second).toMatchObject({ status: 422, attempts: 1, settled: false });
  expect(await codeOf(send(`${server.url}/pay`, { ...order('one'), action: elsewhere }))).toBe(
    'other-request',
  );
  expect(effects).toEqual(['one']);
});
