import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { idempotentFetch, newUserAction } from '../../src/http/idempotency-client/index.ts';
import { readKey } from '../../src/http/idempotency/key.ts';
import { codeOf, IN_USE, post, problem, sender } from '../support/idempotency-client.ts';
import { LossyServer } from '../support/lossy-server.ts';

const server = new LossyServer();
beforeAll(() => server.start());
afterAll(() => server.stop());
beforeEach(() => server.reset());

const send = sender();

describe('idempotentFetch with a key', () => {
  it.each(['dropReply', 'cutReply', 'lose'] as const)(
    'does it once when the reply meets %s twice, and says that it was replayed',
    async (fault) => {
      server.reset(fault, fault);
      const action = newUserAction();
      const answer = await send(`${server.url}/pay`, { ...post(), action });
      expect(answer.status).toBe(201);
      expect(await answer.json()).toMatchObject({ done: 1 });
      expect(server.effects).toEqual(['{"amount":1}']);
      expect(answer).toMatchObject({ replayed: fault !== 'lose', settled: true, attempts: 3 });
    },
  );

  it('sends one key and the same bytes every time, and another X-Attempt-Id', async () => {
    server.reset('dropReply', IN_USE, { status: 503 }, 'cutReply');
    const action = newUserAction();
    await send(`${server.url}/pay?to=alice`, { ...post(), action });
    expect(server.seen).toHaveLength(5);
    for (const one of server.seen) {
      expect(one).toMatchObject({ method: 'POST', url: '/pay?to=alice' });
      expect(readKey([one.key ?? ''])).toEqual({ kind: 'key', key: action.key });
      expect(one.body.toString()).toBe('{"amount":1}');
      expect(one.contentType).toBe('application/json');
    }
    expect(new Set(server.seen.map((one) => one.attemptId)).size).toBe(5);
  });

  it('does it once for a silent server that has done it', async () => {
    server.reset('hang');
    const answer = await sender({ attemptTimeoutMs: 200 })(server.url, {
      ...post(),
      action: newUserAction(),
    });
    expect(answer).toMatchObject({ status: 201, replayed: true });
    expect(server.effects).toHaveLength(1);
  });

  it('does it once for two sends of one action at once, as a double click makes them', async () => {
    const action = newUserAction();
    server.reset('serve', IN_USE);
    const answers = await Promise.all([1, 2].map(() => send(server.url, { ...post(), action })));
    expect(answers.map((answer) => answer.status)).toEqual([201, 201]);
    expect(server.effects).toHaveLength(1);
  });

  it.each([408, 425, 429, 502, 503, 504])('sends again after a %i', async (status) => {
    server.reset({ status });
    const answer = await send(server.url, { ...post(), action: newUserAction() });
    expect(answer).toMatchObject({ status: 201, attempts: 2, replayed: false });
  });

  it.each([400, 402, 403, 404, 409, 413, 415, 422, 500, 501])(
    'takes a %i for an answer and does not send again',
    async (status) => {
      server.reset({ status, headers: { 'Retry-After': '0' } });
      const answer = await send(server.url, { ...post(), action: newUserAction() });
      expect(answer).toMatchObject({ status, attempts: 1, settled: status < 500 });
      expect(server.seen).toHaveLength(1);
    },
  );

  it('sends again after a 500 only where that is asked for', async () => {
    server.reset({ status: 500 });
    const answer = await sender({ retryStatuses: [500] })(server.url, {
      ...post(),
      action: newUserAction(),
    });
    expect(answer).toMatchObject({ status: 201, attempts: 2 });
  });

  it('takes a stored 503 for the last word, and does not give up its key', async () => {
    server.reset({ status: 503, headers: { 'Idempotent-Replayed': 'true', 'Retry-After': '0' } });
    const answer = await send(server.url, { ...post(), action: newUserAction() });
    expect(answer).toMatchObject({ status: 503, attempts: 1, replayed: true, settled: false });
  });

  it('waits while the first is under way, and not when it broke off', async () => {
    server.reset(IN_USE, IN_USE);
    const waited = await send(server.url, { ...post(), action: newUserAction() });
    expect(waited).toMatchObject({ status: 201, attempts: 3 });
    server.reset(problem(409, 'idempotency-key-interrupted', { 'Retry-After': '0' }));
    const brokenOff = await send(server.url, { ...post(), action: newUserAction() });
    expect(brokenOff).toMatchObject({ status: 409, attempts: 1, settled: false });
    expect(await brokenOff.json()).toMatchObject({ code: 'idempotency-key-interrupted' });
  });

  it('ends after its attempts with the last answer, or with an error that says what is not known', async () => {
    server.reset({ status: 503 }, { status: 503 });
    const answer = await sender({ maxAttempts: 2 })(server.url, {
      ...post(),
      action: newUserAction(),
    });
    expect(answer).toMatchObject({ status: 503, attempts: 2, settled: false });
    server.reset('dropReply', 'dropReply', 'dropReply');
    const action = newUserAction();
    const lost = sender({ maxAttempts: 2 })(server.url, { ...post(), action });
    await expect(lost).rejects.toMatchObject({
      code: 'no-answer',
      message: expect.stringContaining('after 2 attempts; whether it was done is not known'),
      cause: expect.any(TypeError),
    });
    const later = await send(server.url, { ...post(), action });
    expect(later).toMatchObject({ status: 201, replayed: true });
    expect(server.effects).toHaveLength(1);
  });

  it('does not begin a pause that would outlast its deadline', async () => {
    server.reset({ status: 429, headers: { 'Retry-After': '3600' } });
    const answer = await send(server.url, { ...post(), action: newUserAction() });
    expect(answer).toMatchObject({ status: 429, attempts: 1, settled: false });
    expect(answer.headers.get('retry-after')).toBe('3600');
  });

  it('waits as long as Retry-After says', async () => {
    server.reset({ status: 503, headers: { 'Retry-After': '1' } });
    await send(server.url, { ...post(), action: newUserAction() });
    const [first, second] = server.seen;
    expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThanOrEqual(990);
  });

  it('takes a key from the header as it is', async () => {
    server.reset('dropReply');
    const headers = { 'Idempotency-Key': 'order-17', 'Content-Type': 'application/json' };
    const answer = await send(server.url, post('{}', { headers }));
    expect(answer).toMatchObject({ status: 201, replayed: true });
    expect(server.seen.map((one) => one.key)).toEqual(['order-17', 'order-17']);
  });

  it('writes any printable key so that the server reads it', async () => {
    const key = String.raw`a "b" \ c, d;e`;
    await send(server.url, { ...post(), action: newUserAction({ key }) });
    expect(readKey([server.seen[0]?.key ?? ''])).toEqual({ kind: 'key', key });
  });

  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'patch'])('carries the key on %s', async (method) => {
    const action = newUserAction();
    await send(server.url, { method, action });
    expect(server.seen).toMatchObject([{ method: method.toUpperCase(), key: `"${action.key}"` }]);
  });
});

describe('idempotentFetch without a key', () => {
  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'delete'])(
    'sends no %s, and says what to do',
    async (method) => {
      const sent = send(server.url, { method });
      await expect(sent).rejects.toMatchObject({
        code: 'key-missing',
        message: expect.stringContaining('newUserAction()'),
      });
      expect(await codeOf(send(new Request(server.url, { method })))).toBe('key-missing');
      const empty = { method, headers: { 'Idempotency-Key': ' ' } };
      expect(await codeOf(send(server.url, empty))).toBe('key-missing');
      expect(server.seen).toHaveLength(0);
    },
  );

  it('sends a POST once and never again where it may be sent at all', async () => {
    const once = sender({ unkeyed: 'send-once' });
    server.reset('dropReply');
    expect(await codeOf(once(server.url, post()))).toBe('no-answer');
    expect(server.seen).toHaveLength(1);
    server.reset({ status: 503, headers: { 'Retry-After': '0' } });
    expect(await once(server.url, post())).toMatchObject({ status: 503, attempts: 1 });
    expect(server.seen[0]?.key).toBeUndefined();
  });

  it('tries a GET again, and puts no key on it', async () => {
    server.reset('lose', { status: 503 });
    const answer = await send(server.url, { action: newUserAction() });
    expect(answer).toMatchObject({ status: 201, attempts: 3 });
    expect(server.seen.map((one) => one.key)).toEqual([undefined, undefined, undefined]);
  });
});

describe('the body', () => {
  it('is refused before the first send when it is a stream', async () => {
    async function* chunks() {
      yield new Uint8Array([1]);
    }
    for (const body of [new Blob(['x']).stream(), chunks()]) {
      const sent = send(server.url, { ...post(body), action: newUserAction() });
      expect(await codeOf(sent)).toBe('body-not-repeatable');
    }
    expect(server.seen).toHaveLength(0);
  });

  it('is refused when the Request that has it was read already', async () => {
    const request = new Request(server.url, post());
    await request.text();
    const sent = send(request, { action: newUserAction() });
    expect(await codeOf(sent)).toBe('body-not-repeatable');
    expect(server.seen).toHaveLength(0);
  });

  it('comes whole from a Request, with its headers', async () => {
    server.reset('cutReply', 'dropReply');
    const request = new Request(
      server.url,
      post('{"a":2}', { headers: { 'X-Other': 'kept', 'Content-Type': 'text/x' } }),
    );
    const answer = await send(request, { action: newUserAction() });
    expect(answer.status).toBe(201);
    expect(server.seen.map((one) => [one.method, one.contentType, one.body.toString()])).toEqual(
      Array.from({ length: 3 }, () => ['POST', 'text/x', '{"a":2}']),
    );
  });

  it('is taken when the call is made: what is written into it later is not sent', async () => {
    server.reset('lose');
    const bytes = new TextEncoder().encode('before');
    const sending = idempotentFetch(
      async (input, init) => {
        bytes.set(new TextEncoder().encode('AFTER!'));
        return fetch(input, init);
      },
      { baseDelayMs: 2 },
    );
    await sending(server.url, { ...post(bytes), action: newUserAction() });
    expect(server.seen.map((one) => one.body.toString())).toEqual(['before', 'before']);
  });

  it('has one boundary for every attempt when it is a form', async () => {
    server.reset('lose', 'lose');
    const form = new FormData();
    form.set('amount', '1');
    form.set('file', new Blob(['content']), 'a.txt');
    await send(server.url, { method: 'POST', body: form, action: newUserAction() });
    const [first, second, third] = server.seen;
    expect(first?.contentType).toMatch(/^multipart\/form-data; boundary=/);
    expect(second).toMatchObject({ contentType: first?.contentType, body: first?.body });
    expect(third).toMatchObject({ contentType: first?.contentType, body: first?.body });
  });

  it.each<[string, NonNullable<RequestInit['body']>, string]>([
    ['text', 'a=1', 'text/plain;charset=UTF-8'],
    ['a query', new URLSearchParams({ a: '1' }), 'application/x-www-form-urlencoded;charset=UTF-8'],
    ['a blob', new Blob(['a=1'], { type: 'text/csv' }), 'text/csv'],
  ])('has the type that fetch gives it when it is %s', async (_what, body, type) => {
    await send(server.url, { method: 'POST', body, action: newUserAction() });
    expect(server.seen).toMatchObject([{ contentType: type, body: Buffer.from('a=1') }]);
  });
});

describe('a redirect', () => {
  it.each([307, 308, 302, 301])('of a POST is not followed: %i is the answer', async (status) => {
    server.reset({ status, headers: { Location: `${server.url}/elsewhere` } });
    const answer = await send(server.url, { ...post(), action: newUserAction() });
    expect(answer).toMatchObject({ status, attempts: 1, settled: false });
    expect(server.seen).toHaveLength(1);
  });

  it('ends the action when it only says where the result is', async () => {
    server.reset({ status: 303, headers: { Location: `${server.url}/result` } });
    const answer = await send(server.url, { ...post(), action: newUserAction() });
    expect(answer).toMatchObject({ status: 303, settled: true });
  });

  it('is an error that is not tried again where that is asked for', async () => {
    server.reset({ status: 307, headers: { Location: `${server.url}/elsewhere` } });
    const sent = send(server.url, { ...post(), action: newUserAction(), redirect: 'error' });
    expect(await codeOf(sent)).toBe('redirected');
    expect(server.seen).toHaveLength(1);
  });

  it('is followed where that is asked for, and of a GET', async () => {
    const moved = { status: 307, headers: { Location: `${server.url}/elsewhere` } };
    server.reset(moved);
    const action = newUserAction();
    const followed = await send(server.url, { ...post(), action, redirect: 'follow' });
    expect(followed.status).toBe(201);
    expect(server.seen.map((one) => one.url)).toEqual(['/', '/elsewhere']);
    server.reset(moved);
    expect((await send(server.url)).status).toBe(201);
  });
});

describe('the caller’s signal', () => {
  it('sends nothing when it is aborted already', async () => {
    const signal = AbortSignal.abort(new Error('left the page'));
    await expect(send(server.url, { ...post(), action: newUserAction(), signal })).rejects.toThrow(
      'left the page',
    );
    expect(server.seen).toHaveLength(0);
  });

  it('ends a pause at once', async () => {
    server.reset({ status: 503, headers: { 'Retry-After': '4' } });
    const { promise, controller } = breakableCall();
    await expect.poll(() => server.seen.length).toBe(1);
    const at = performance.now();
    controller.abort(new Error('left the page'));
    await expect(promise).rejects.toThrow('left the page');
    expect(performance.now() - at).toBeLessThan(1_000);
    expect(server.seen).toHaveLength(1);
  });

  it('ends a call that is under way, and counts for a Request too', async () => {
    server.reset('hang');
    const controller = new AbortController();
    const request = new Request(server.url, post(undefined, { signal: controller.signal }));
    const promise = send(request, { action: newUserAction() });
    await expect.poll(() => server.seen.length).toBe(1);
    controller.abort();
    await expect(promise).rejects.toMatchObject({ name: 'AbortError' });
    expect(server.seen).toHaveLength(1);
  });

  function breakableCall() {
    const controller = new AbortController();
    const { signal } = controller;
    const promise = send(server.url, { ...post(), action: newUserAction(), signal });
    promise.catch(() => {});
    return { promise, controller };
  }
});

it('refuses a URL or a header that is none at once, and not as a network that fails', async () => {
  const action = newUserAction();
  await expect(send('http://', { ...post(), action })).rejects.toBeInstanceOf(TypeError);
  const headers = { 'X-Bad': 'a\nb' };
  await expect(send(server.url, { ...post('', { headers }), action })).rejects.toBeInstanceOf(
    TypeError,
  );
});
