import { once } from 'node:events';
import net from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { auditOf, ledgerOf } from '../support/vault-audit.ts';
import { payerOf, startVaultProxy, type VaultProxy } from '../support/vault-proxy.ts';
import { rawReply, sendRaw, startRecorder, type Recorded } from '../support/vault-wire.ts';

type Script = Parameters<typeof startRecorder>[0];

const FORM = 'amount=50&currency=usd&customer=cus_1&confirm=true';
const PAID = {
  object: 'payment_intent',
  id: 'pi_1',
  status: 'succeeded',
  amount: 50,
  currency: 'usd',
  customer: 'cus_1',
};
/** Each payment is another intent. */
const paid: Script = (_request, _socket, count) =>
  rawReply(200, { ...PAID, id: `pi_${count}_${performance.now()}`.replace('.', '_') });

let script: Script = paid;
let upstream: Awaited<ReturnType<typeof startRecorder>>;
let vault: VaultProxy;
let key = '';
let keyId = '';

beforeAll(async () => {
  upstream = await startRecorder((...args) => script(...args));
  vault = await startVaultProxy({
    upstreamUrl: upstream.url,
    limits: {
      headersTimeoutMs: 200,
      requestTimeoutMs: 400,
      answerTimeoutMs: 300,
      maxBodyBytes: 10_000,
    },
  });
  ({ key, keyId } = await vault.makeKey({ capMinor: 1_000_000 }));
});

afterEach(() => {
  script = paid;
  upstream.requests.length = 0;
  vault.events.length = 0;
});

afterAll(async () => {
  await vault.close();
  await upstream.close();
});

let serial = 0;
const nextKey = () => `key-${(serial += 1)}`;
const pay = (headers: Record<string, string> = {}) =>
  vault.ask({ key, idempotencyKey: nextKey(), form: FORM, headers });
const headersOf = (request: Recorded | undefined) => {
  const raw = request?.rawHeaders ?? [];
  return Object.fromEntries(raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1]]] : [])));
};
/** A POST as bytes, with more header lines and another body. */
const post = (lines: readonly string[], body = FORM, first = 'POST /v1/payment_intents HTTP/1.1') =>
  [
    first,
    'Host: vault',
    `Authorization: Bearer ${key}`,
    `Idempotency-Key: ${nextKey()}`,
    'Content-Type: application/x-www-form-urlencoded',
    ...lines,
    '',
    body,
  ].join('\r\n');
const length = `Content-Length: ${FORM.length}`;
const answered = (text: string) => text.includes('"code"') || text.includes('"status"');

describe('requests with two readings', () => {
  const CHUNKED = `${FORM.length.toString(16)}\r\n${FORM}\r\n0\r\n\r\n`;
  it.each([
    ['both lengths', () => post([length, 'Transfer-Encoding: chunked'], CHUNKED)],
    [
      'both lengths, the other way round',
      () => post(['Transfer-Encoding: chunked', length], CHUNKED),
    ],
    ['two lengths', () => post([length, 'Content-Length: 1'])],
    ['one length twice', () => post([length, length])],
    ['a list of lengths', () => post([`Content-Length: ${FORM.length}, ${FORM.length}`])],
    ['a signed length', () => post([`Content-Length: +${FORM.length}`])],
    ['a negative length', () => post(['Content-Length: -1'])],
    ['an unknown coding', () => post(['Transfer-Encoding: xchunked'], CHUNKED)],
    ['two codings', () => post(['Transfer-Encoding: gzip, chunked'], CHUNKED)],
    [
      'chunked twice',
      () => post(['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], CHUNKED),
    ],
    ['chunked that is not last', () => post(['Transfer-Encoding: chunked, identity'], CHUNKED)],
    ['a broken chunk', () => post(['Transfer-Encoding: chunked'], `zz\r\n${FORM}\r\n0\r\n\r\n`)],
    ['a space before the colon', () => post([`Content-Length : ${FORM.length}`])],
    ['a folded header', () => post([length, 'X-A: 1', ' Idempotency-Key: other'])],
    [
      'a bare LF between headers',
      () => post([length]).replace('\r\nContent-Length', '\nContent-Length'),
    ],
    [
      'a bare LF after the request line',
      () => post([length]).replace('HTTP/1.1\r\n', 'HTTP/1.1\n'),
    ],
    ['bare LFs alone', () => post([length]).replaceAll('\r\n', '\n')],
    ['a bare CR in a value', () => post([length, 'X-A: 1\rX-B: 2'])],
    ['a NUL in a value', () => post([length, 'X-A: 1\0'])],
    ['a line without a colon', () => post([length, 'nonsense'])],
    ['an empty header name', () => post([length, ': x'])],
    ['no Host', () => post([length]).replace('Host: vault\r\n', '')],
    ['two Hosts', () => post([length, 'Host: other'])],
    ['HTTP/1.0', () => post([length]).replace('HTTP/1.1', 'HTTP/1.0')],
    ['another protocol', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['two Idempotency-Keys', () => post([length, 'Idempotency-Key: other'])],
    ['two Authorizations', () => post([length, 'Authorization: Bearer other'])],
    ['Connection: Idempotency-Key', () => post([length, 'Connection: close, Idempotency-Key'])],
    ['Connection: Authorization', () => post([length, 'Connection: authorization'])],
    ['Connection: Content-Type', () => post([length, 'Connection: Content-Type'])],
    ['a Stripe-Account', () => post([length, 'Stripe-Account: acct_1'])],
    ['CONNECT', () => post([length], FORM, 'CONNECT api.stripe.com:443 HTTP/1.1')],
    ['an upgrade', () => post([length, 'Connection: Upgrade', 'Upgrade: h2c'])],
    ['a query on a POST', () => post([length], FORM, 'POST /v1/payment_intents?amount=9 HTTP/1.1')],
    [
      'two amounts',
      () => post(['Content-Length: 53'], 'amount=50&currency=usd&customer=cus_1&%61mount=900000'),
    ],
    [
      'a nested amount',
      () => post(['Content-Length: 53'], 'amount=50&currency=usd&customer=cus_1&amount[]=900000'),
    ],
  ])('end in 400 and never reach Stripe: %s', async (_name, bytes) => {
    const text = await sendRaw(vault.port, bytes(), answered);
    expect(text).toMatch(/^HTTP\/1.1 400 /);
    expect(text).toContain('"type":"vault_error"');
    expect(text).not.toContain(key.slice(-64));
    expect(upstream.requests).toHaveLength(0);
  });

  it('are told from whole ones: a chunked body goes out with its length', async () => {
    const text = await sendRaw(vault.port, post(['Transfer-Encoding: chunked'], CHUNKED), answered);
    expect(text).toMatch(/^HTTP\/1.1 200 /);
    expect(upstream.requests[0]?.body.toString()).toBe(FORM);
    expect(headersOf(upstream.requests[0])).toMatchObject({
      'Content-Length': String(FORM.length),
    });
    expect(upstream.requests[0]?.rawHeaders.map((name) => name.toLowerCase())).not.toContain(
      'transfer-encoding',
    );
  });

  it('never hide a second request behind a refused one', async () => {
    const hidden = post([length]);
    const text = await sendRaw(
      vault.port,
      post([length, 'Stripe-Account: acct_1'], hidden),
      answered,
    );
    expect(text.match(/HTTP\/1.1 /g)).toHaveLength(1);
    expect(upstream.requests).toHaveLength(0);
  });

  it('do not answer for a request of the same connection that is at Stripe already', async () => {
    const arrived: net.Socket[] = [];
    script = (_request, socket) => {
      arrived.push(socket);
      return null;
    };
    const asked = sendRaw(vault.port, `${post([length])}NONSENSE\r\n\r\n`);
    await expect.poll(() => arrived).toHaveLength(1);
    arrived[0]?.end(rawReply(200, { ...PAID, id: 'pi_pipelined' }));
    expect(await asked).not.toContain('vault_error');
    await expect.poll(() => vault.events.some((event) => event.kind === 'answered')).toBe(true);
  });
});

describe('clients that take too much', () => {
  it('get 413 for a body above the limit, declared or not, and Stripe gets nothing', async () => {
    const large = `${FORM}&x=${'a'.repeat(10_000)}`;
    const declared = await sendRaw(
      vault.port,
      post([`Content-Length: ${large.length}`], large),
      answered,
    );
    expect(declared).toMatch(/^HTTP\/1.1 413 /);
    const chunk = `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`;
    const chunked = await sendRaw(
      vault.port,
      post(['Transfer-Encoding: chunked'], chunk),
      answered,
    );
    expect(chunked).toMatch(/^HTTP\/1.1 413 /);
    expect(chunked).toContain('"body_too_large"');
    expect(upstream.requests).toHaveLength(0);
    expect(
      (await auditOf(vault.db, keyId)).filter(({ decision }) => decision === 'body_too_large'),
    ).toHaveLength(2);
  });

  it('get 415 for another kind of body', async () => {
    const json = '{"amount":50,"currency":"usd"}';
    const answer = await vault.ask({
      key,
      idempotencyKey: nextKey(),
      form: json,
      headers: { 'Content-Type': 'application/json' },
    });
    expect([answer.status, answer.json.error.code]).toEqual([415, 'unsupported_media_type']);
    const packed = await pay({ 'Content-Encoding': 'gzip' });
    expect(packed.status).toBe(415);
    expect(upstream.requests).toHaveLength(0);
  });

  it('are cut when they send their headers or their body too slowly', async () => {
    const headers = await sendRaw(vault.port, 'POST /v1/payment_intents HTTP/1.1\r\nHost: va');
    expect(headers).toMatch(/^HTTP\/1.1 408 /);
    const body = await sendRaw(vault.port, post([length], FORM.slice(0, 10)));
    expect(body).toMatch(/^HTTP\/1.1 408 /);
    expect(body).toContain('"request_timeout"');
    expect(upstream.requests).toHaveLength(0);
  });

  it('are cut when they do not take their answer', async () => {
    script = () => rawReply(200, JSON.stringify({ data: 'x'.repeat(7_000_000) }));
    const socket = net.connect(vault.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.pause();
    const head = `Host: vault\r\nAuthorization: Bearer ${key}`;
    socket.write(`GET /v1/events HTTP/1.1\r\n${head}\r\n\r\n`);
    await expect.poll(() => vault.events.some(({ kind }) => kind === 'answered')).toBe(true);
    // Empty lines between requests mean nothing to the server, and to us that it has gone.
    const isCut = () => {
      if (!socket.destroyed) socket.write('\r\n');
      return socket.destroyed;
    };
    await expect.poll(isCut).toBe(true);
    expect(vault.events.filter(({ kind }) => kind === 'refused')).toEqual([]);
  });

  it('are refused beyond the number of connections, and the others go on', async () => {
    const narrow = await startVaultProxy({
      upstreamUrl: upstream.url,
      limits: { maxConnections: 2, maxRequestsPerSocket: 1 },
    });
    const open = [1, 2, 3].map(() => net.connect(narrow.port, '127.0.0.1').on('error', () => {}));
    await expect
      .poll(
        () =>
          open.filter(({ destroyed, readyState }) => destroyed || readyState === 'closed').length,
      )
      .toBe(1);
    for (const socket of open) socket.destroy();
    const own = await narrow.makeKey();
    await expect
      .poll(() =>
        payerOf(narrow, 'cus_1')
          .pay(own.key, 50)
          .then(
            ({ status }) => status,
            () => 0,
          ),
      )
      .toBe(200);
    const once = await payerOf(narrow, 'cus_1').pay(own.key, 50);
    expect(once.headers.connection).toBe('close');
    await narrow.close();
  });

  it('get 100-continue only when their head is in order', async () => {
    const good = post([length, 'Expect: 100-continue']).slice(0, -FORM.length);
    const socket = net.connect(vault.port, '127.0.0.1');
    socket.write(good);
    const [first] = await once(socket, 'data');
    expect(String(first)).toMatch(/^HTTP\/1.1 100 Continue/);
    socket.write(FORM);
    const [second] = await once(socket, 'data');
    expect(String(second)).toMatch(/^HTTP\/1.1 200 /);
    socket.destroy();
    const bad = await sendRaw(vault.port, good.replace('/payment_intents', '/payouts'), answered);
    expect(bad).toMatch(/^HTTP\/1.1 403 /);
    const odd = await sendRaw(vault.port, post([length, 'Expect: tea']), answered);
    expect(odd).toMatch(/^HTTP\/1.1 417 /);
  });
});

describe('the end of the process', () => {
  it('waits for what is at Stripe, answers it, and takes nothing new', async () => {
    const arrived: net.Socket[] = [];
    script = (_request, socket) => {
      arrived.push(socket);
      return null;
    };
    const ending = await vault.before(upstream.url);
    const asked = ending.ask({ key, idempotencyKey: nextKey(), form: FORM });
    await expect.poll(() => arrived).toHaveLength(1);
    const closed = ending.close(5_000);
    await expect(ending.ask({ key })).rejects.toThrow('ECONNREFUSED');
    arrived[0]?.end(rawReply(200, { ...PAID, id: 'pi_drained' }));
    const answer = await asked;
    expect([answer.json.id, answer.headers.connection]).toEqual(['pi_drained', 'close']);
    await closed;
    expect((await ledgerOf(vault.db, keyId)).reservations.at(-1)).toMatchObject({
      state: 'spent',
      objectId: 'pi_drained',
    });
  });
});
