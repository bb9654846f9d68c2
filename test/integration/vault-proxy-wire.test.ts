import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { auditOf, ledgerOf } from '../support/vault-audit.ts';
import { startVaultProxy, STRIPE_SECRET, type VaultProxy } from '../support/vault-proxy.ts';
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

beforeAll(async () => {
  upstream = await startRecorder((...args) => script(...args));
  vault = await startVaultProxy({
    upstreamUrl: upstream.url,
    limits: { headersTimeoutMs: 200, requestTimeoutMs: 400, maxBodyBytes: 10_000 },
  });
  ({ key } = await vault.makeKey({ capMinor: 1_000_000 }));
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

describe('what Stripe gets', () => {
  it('is the body and the key byte by byte, and no header that Stripe does not need', async () => {
    const body = Buffer.from(
      'currency=USD&amount=50&customer=cus_1&a=%7e~+%20x&&description=caf\u00e9&confirm=true&z',
    );
    await vault.ask({
      key,
      idempotencyKey: ' a  "b"%2F',
      form: body,
      headers: {
        'Stripe-Version': '2026-10-28.endive',
        'X-Attempt-Id': 'attempt 1',
        'User-Agent': 'curl/8',
        'X-Stripe-Client-User-Agent': '{"a": 1}',
        'X-Forwarded-Host': 'evil.example',
        'X-Forwarded-For': '10.0.0.1',
        Cookie: 'a=b',
        'Accept-Encoding': 'gzip',
        'X-Custom': 'x',
        'Proxy-Authorization': 'Basic x',
        TE: 'trailers',
        Connection: 'keep-alive, X-Custom',
      },
    });
    const [request] = upstream.requests;
    expect(upstream.requests).toHaveLength(1);
    expect(request).toMatchObject({ method: 'POST', url: '/v1/payment_intents' });
    expect(request?.body.equals(body)).toBe(true);
    const host = new URL(upstream.url).host;
    expect(headersOf(request)).toEqual({
      'Content-Type': 'application/x-www-form-urlencoded',
      'Idempotency-Key': 'a  "b"%2F',
      'Stripe-Version': '2026-10-28.endive',
      'X-Attempt-Id': 'attempt 1',
      'User-Agent': 'curl/8',
      'X-Stripe-Client-User-Agent': '{"a": 1}',
      Authorization: `Bearer ${STRIPE_SECRET}`,
      'Accept-Encoding': 'identity',
      'Content-Length': String(body.length),
      Host: host,
      Connection: 'keep-alive',
    });
  });

  it('is the query of a GET as it stands', async () => {
    await vault.ask({ key, path: '/v1/payment_intents?created%5Bgte%5D=1&customer=cus_1' });
    expect(upstream.requests[0]?.url).toBe('/v1/payment_intents?created%5Bgte%5D=1&customer=cus_1');
  });

  it('comes to the configured host, whatever target, Host or X-Forwarded headers say', async () => {
    const elsewhere = await startRecorder(paid);
    const { host } = new URL(elsewhere.url);
    for (const target of [
      `${elsewhere.url}/v1/payment_intents`,
      `//${host}/v1/payment_intents`,
      `\\\\${host}\\v1\\payment_intents`,
      `@${host}/v1/payment_intents`,
      `/v1/payment_intents/%2e%2e/refunds`,
      `/v1/payment_intents%2Fpi_1%2Fconfirm`,
      '/v1//payment_intents',
      '/v1/./payment_intents',
      '/v1/x/../payment_intents',
      '*',
    ]) {
      const text = await sendRaw(
        vault.port,
        post([length], FORM, `POST ${target} HTTP/1.1`),
        answered,
      );
      expect(text).toMatch(/^HTTP\/1.1 400 /);
    }
    expect(upstream.requests).toHaveLength(0);
    const forged = post([length, `X-Forwarded-Host: ${host}`, `Forwarded: host=${host}`]);
    const text = await sendRaw(
      vault.port,
      forged.replace('Host: vault', `Host: ${host}`),
      answered,
    );
    expect(text).toMatch(/^HTTP\/1.1 200 /);
    expect(upstream.requests).toHaveLength(1);
    expect(elsewhere.requests).toHaveLength(0);
    await elsewhere.close();
  });

  it('is asked once and not followed when it redirects, and the sum stays held', async () => {
    const elsewhere = await startRecorder(paid);
    script = () => rawReply(302, {}, { Location: `${elsewhere.url}/v1/payment_intents` });
    const own = await vault.makeKey();
    const answer = await vault.ask({ key: own.key, idempotencyKey: nextKey(), form: FORM });
    expect([answer.status, answer.headers.location]).toEqual([302, undefined]);
    expect([upstream.requests.length, elsewhere.requests.length]).toEqual([1, 0]);
    expect((await ledgerOf(vault.db, own.keyId)).reservations).toMatchObject([
      { state: 'held', reason: 'http_302' },
    ]);
    await elsewhere.close();
  });

  it('O3: is one attempt when the connection is reset, a reused one too', async () => {
    script = (_request, socket, count) => {
      if (count % 2 === 1) {
        const body = JSON.stringify({ ...PAID, id: `pi_kept_${count}` });
        socket.write(
          `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        );
      } else socket.resetAndDestroy();
      return null;
    };
    const own = await vault.makeKey();
    const ask = () => vault.ask({ key: own.key, idempotencyKey: nextKey(), form: FORM });
    expect((await ask()).status).toBe(200);
    expect((await ask()).json.error.code).toBe('upstream_failed');
    expect(upstream.requests).toHaveLength(2);
    const audit = await auditOf(vault.db, own.keyId);
    expect(audit).toMatchObject([
      { status: 200 },
      { status: null, error: 'econnreset', effect: 'held' },
    ]);
  });
});

describe('what a client gets', () => {
  it("is Stripe's answer byte by byte, without headers that are none of its business", async () => {
    const body = `{"object" : "payment_intent",  "id":"pi_exact", "status":"succeeded","amount":50,"currency":"usd","customer":"cus_1","x":"\u00fc"}\n`;
    script = () =>
      rawReply(200, body, {
        'Request-Id': 'req_1',
        'Original-Request': 'req_1',
        'Stripe-Version': '2026-10-28.endive',
        'Set-Cookie': 'a=b',
        Server: 'nginx',
        'X-Internal': 'x',
      });
    const answer = await pay();
    expect(answer.body.toString()).toBe(body);
    expect(Object.keys(answer.headers).sort()).toEqual([
      'connection',
      'content-length',
      'content-type',
      'date',
      'keep-alive',
      'original-request',
      'request-id',
      'stripe-version',
    ]);
  });

  it('never is the secret, even when the answer quotes it', async () => {
    script = () =>
      rawReply(401, {
        error: { type: 'invalid_request_error', message: `bad key ${STRIPE_SECRET}` },
      });
    const answer = await pay();
    expect(answer.status).toBe(401);
    expect(answer.json.error.message).toBe('bad key [redacted]');
    expect(JSON.stringify(vault.events)).not.toContain(STRIPE_SECRET);
  });

  it('is 502 for an answer larger than the vault reads, and the sum stays held', async () => {
    script = () => rawReply(200, JSON.stringify({ ...PAID, x: 'x'.repeat(9_000_000) }));
    const own = await vault.makeKey();
    const answer = await vault.ask({ key: own.key, idempotencyKey: nextKey(), form: FORM });
    expect([answer.status, answer.json.error.code]).toEqual([502, 'upstream_failed']);
    expect((await ledgerOf(vault.db, own.keyId)).reservations).toMatchObject([
      { state: 'held', reason: 'unreadable_reply' },
    ]);
  });

  it('is the answer about another sum, which is told and holds what was asked for', async () => {
    script = () => rawReply(200, { ...PAID, id: 'pi_other', amount: 5_000 });
    const own = await vault.makeKey();
    await vault.ask({ key: own.key, idempotencyKey: nextKey(), form: FORM });
    expect(await ledgerOf(vault.db, own.keyId)).toEqual({
      usedMinor: 50,
      reservations: [{ state: 'held', reason: 'reply_mismatch', amountMinor: 50, objectId: null }],
    });
    expect(vault.events).toContainEqual(
      expect.objectContaining({ kind: 'reply_mismatch', mismatch: 'amount' }),
    );
  });
});
