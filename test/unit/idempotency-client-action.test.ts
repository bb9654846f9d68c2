import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  idempotentFetch,
  newUserAction,
  type KeyStorage,
} from '../../src/http/idempotency-client/index.ts';
import {
  codeOf,
  IN_USE,
  MemoryStorage,
  post,
  problem,
  sender,
} from '../support/idempotency-client.ts';
import { LossyServer } from '../support/lossy-server.ts';

const server = new LossyServer();
beforeAll(() => server.start());
afterAll(() => server.stop());
beforeEach(() => server.reset());

const send = sender();

describe('an action that was sent', () => {
  it.each<[string, string, RequestInit]>([
    ['body', '/pay', post('{"amount":2}')],
    ['method', '/pay', post(undefined, { method: 'PUT' })],
    ['path', '/refund', post()],
    ['query', '/pay?dry=1', post()],
    ['content type', '/pay', post(undefined, { headers: { 'Content-Type': 'text/plain' } })],
  ])('is not sent with another %s', async (_what, path, init) => {
    const action = newUserAction();
    await send(`${server.url}/pay`, { ...post(), action });
    expect(await codeOf(send(`${server.url}${path}`, { ...init, action }))).toBe('other-request');
    expect(await send(`${server.url}/pay#top`, { ...post(), action })).toMatchObject({
      replayed: true,
    });
    expect(server.seen).toHaveLength(2);
  });

  it('is not sent together with a key in a header', async () => {
    const headers = { 'Idempotency-Key': 'other' };
    const sent = send(server.url, { method: 'POST', headers, action: newUserAction() });
    expect(await codeOf(sent)).toBe('key-malformed');
  });

  it('is not sent again when the server may have forgotten its key', async () => {
    let now = 0;
    const action = newUserAction({ now: () => now });
    await send(server.url, { ...post(), action });
    now = 23 * 3_600_000;
    expect(await codeOf(send(server.url, { ...post(), action }))).toBe('sent');
    now += 1;
    expect(await codeOf(send(server.url, { ...post(), action }))).toBe('action-too-old');
    expect(server.seen).toHaveLength(2);
  });

  it.each(['', 'k'.repeat(256), 'ké', 'a\nb', 'a\u0000'])('D7: has no key like %j', async (key) => {
    expect(await codeOf(() => newUserAction({ key }))).toBe('key-malformed');
  });

  it('has another key for each thing that the user does', () => {
    const keys = Array.from({ length: 50 }, () => newUserAction().key);
    expect(new Set(keys).size).toBe(50);
  });
});

describe('an action in a storage', () => {
  const begin = (storage: KeyStorage, name = 'pay order 17') => newUserAction({ storage, name });

  it('has the same key after a reload of the page, and does it once', async () => {
    const storage = new MemoryStorage();
    const before = begin(storage);
    server.reset('dropReply');
    expect(
      await codeOf(sender({ maxAttempts: 1 })(server.url, { ...post(), action: before })),
    ).toBe('no-answer');
    const after = begin(storage);
    expect(after.key).toBe(before.key);
    expect(await send(server.url, { ...post(), action: after })).toMatchObject({ replayed: true });
    expect(server.effects).toHaveLength(1);
  });

  it('is there before the first send, and gone after the final answer', async () => {
    const storage = new MemoryStorage();
    const entriesAtSend: string[][] = [];
    const watching = idempotentFetch(async (input, init) => {
      entriesAtSend.push([...storage.entries.values()]);
      return fetch(input, init);
    });
    const action = begin(storage);
    expect(storage.entries.size).toBe(1);
    await watching(server.url, { ...post(), action });
    expect(entriesAtSend).toMatchObject([[expect.stringContaining(action.key)]]);
    expect(storage.entries.size).toBe(0);
    expect(begin(storage).key).not.toBe(action.key);
  });

  it('stays when it is not known whether it was done, or it can still be', async () => {
    const storage = new MemoryStorage();
    const { key } = begin(storage);
    const quick = sender({ maxAttempts: 1 });
    const answers = [
      'lose' as const,
      'dropReply' as const,
      { status: 500 },
      { status: 503 },
      { status: 401 },
      { status: 429 },
      { status: 307, headers: { Location: '/elsewhere' } },
      IN_USE,
      problem(409, 'idempotency-key-interrupted'),
      problem(422, 'idempotency-key-reused'),
      problem(503, 'idempotency-store-unavailable'),
    ];
    for (const step of answers) {
      server.reset(step);
      await codeOf(quick(server.url, { ...post(), action: begin(storage) }));
      expect(begin(storage).key).toBe(key);
    }
    begin(storage).end();
    expect(begin(storage).key).not.toBe(key);
  });

  it('stays when the caller breaks off', async () => {
    const storage = new MemoryStorage();
    const action = begin(storage);
    server.reset('hang');
    const signal = AbortSignal.timeout(40);
    const sent = send(server.url, { ...post(), action, signal });
    await expect(sent).rejects.toMatchObject({ name: 'TimeoutError' });
    expect(begin(storage).key).toBe(action.key);
  });

  it('is one for two clicks and two tabs, and one of its own for another name', () => {
    const storage = new MemoryStorage();
    expect(begin(storage).key).toBe(begin(storage).key);
    expect(begin(storage, 'pay order 18').key).not.toBe(begin(storage).key);
  });

  it('refuses another body after a reload too, until it is ended', async () => {
    const storage = new MemoryStorage();
    server.reset('lose');
    await codeOf(sender({ maxAttempts: 1 })(server.url, { ...post(), action: begin(storage) }));
    const other = () => send(server.url, { ...post('{"amount":2}'), action: begin(storage) });
    expect(await codeOf(other())).toBe('other-request');
    begin(storage).end();
    expect(await codeOf(other())).toBe('sent');
  });

  it('does not send a copy whose action was ended and followed by another one', async () => {
    const storage = new MemoryStorage();
    const old = begin(storage);
    begin(storage).end();
    begin(storage);
    expect(await codeOf(send(server.url, { ...post(), action: old }))).toBe('action-replaced');
    expect(server.seen).toHaveLength(0);
  });

  it('leaves the entry of the action that followed it alone', () => {
    const storage = new MemoryStorage();
    const old = begin(storage);
    old.end();
    const next = begin(storage);
    old.end();
    expect(begin(storage).key).toBe(next.key);
  });

  it('sends nothing and makes no new key when the storage cannot be used', async () => {
    const storage = new MemoryStorage();
    const action = begin(storage);
    storage.setItem = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };
    expect(await codeOf(send(server.url, { ...post(), action }))).toBe('storage-unusable');
    expect(await codeOf(() => begin(storage, 'another'))).toBe('storage-unusable');
    expect(server.seen).toHaveLength(0);
    for (const text of [
      '',
      'null',
      '{}',
      '{"key":""}',
      '{"key":"k"}',
      '{"key":"k","sent":{}}',
      '[',
    ]) {
      const [name = ''] = storage.entries.keys();
      storage.entries.set(name, text);
      expect(await codeOf(() => begin(storage))).toBe('storage-unusable');
    }
  });

  it('needs a name, and takes a key of the caller as the one it is', async () => {
    const storage = new MemoryStorage();
    expect(await codeOf(() => newUserAction({ storage }))).toBe('storage-unusable');
    const own = () => newUserAction({ storage, name: 'form', key: 'from-the-form' });
    expect([own().key, own().key]).toEqual(['from-the-form', 'from-the-form']);
    const other = () => newUserAction({ storage, name: 'form', key: 'other' });
    expect(await codeOf(other)).toBe('action-replaced');
  });

  it('keeps no content of the request', async () => {
    const storage = new MemoryStorage();
    server.reset('lose');
    const action = begin(storage);
    await codeOf(
      sender({ maxAttempts: 1 })(`${server.url}/secret-path`, { ...post('secret-body'), action }),
    );
    expect([...storage.entries.values()].join(' ')).not.toContain('secret');
  });
});
