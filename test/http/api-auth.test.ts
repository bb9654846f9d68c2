import { once } from 'node:events';
import net from 'node:net';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { registerTokens } from '../../src/cli/commands/tokens.ts';
import { EXIT } from '../../src/cli/exit-codes.ts';
import { ROLES } from '../../src/http/api/auth.ts';
import { redact } from '../../src/log.ts';
import { refusedBy, startEngine, type Engine } from '../support/engine.ts';
import { runInProcess } from '../support/in-process.ts';
import { examplePath, operationsOf, readDocument, type Operation } from '../support/openapi.ts';
import { startOperatorApi, type OperatorApi } from '../support/operator-api.ts';

const FAILURES = 5;
const madeSchema = z.strictObject({
  token: z.string().regex(/^cot_[0-9a-f]{16}_[0-9a-f]{64}$/),
  id: z.string(),
  name: z.string(),
  role: z.enum(ROLES),
  expires_at: z.iso.datetime(),
});
const problemSchema = z.object({ code: z.string(), detail: z.string(), type: z.string() });

let engine: Engine;
let api: OperatorApi;
let operations: readonly Operation[];

beforeAll(async () => {
  engine = await startEngine();
  // Wrong tokens have one test; the others send as many as they like.
  api = await startOperatorApi(engine.db, { limits: { failuresPerMinute: 10_000 } });
  operations = operationsOf(await readDocument(api.url));
});
afterAll(async () => {
  await api.close();
  await engine.close();
});

const tokens = (...args: readonly string[]) =>
  runInProcess(registerTokens, ['tokens', ...args, '--json'], { DATABASE_URL: engine.databaseUrl });

async function make(role: string, ...more: readonly string[]) {
  const made = await tokens('create', '--role', role, '--name', `${role}-bot`, ...more);
  expect(made).toMatchObject({ code: EXIT.ok });
  return madeSchema.parse(made.json());
}

/** Status and code of a problem; null for an answer that is none. */
async function ask(authorization: string | null, path = '/v1/me', method = 'get') {
  const answer = await fetch(new URL(path, api.url), {
    method: method.toUpperCase(),
    headers: authorization === null ? {} : { authorization },
  });
  // A HEAD has the headers of a problem and no body.
  const isProblem =
    method !== 'head' &&
    (answer.headers.get('content-type') ?? '').startsWith('application/problem+json');
  const code = isProblem ? problemSchema.parse(await answer.json()).code : null;
  if (!isProblem) await answer.body?.cancel();
  return { status: answer.status, code, challenge: answer.headers.get('www-authenticate') };
}

const logged = async (action: string) =>
  engine.db
    .selectFrom('audit_log')
    .selectAll()
    .where('action', '=', action)
    .orderBy('id')
    .execute();

describe('the roles', () => {
  it('let each route be called from the role on that its document names, and by no lower one', async () => {
    expect(operations.length).toBeGreaterThan(8);
    const wrong: string[] = [];
    const seen = new Set<string>();
    for (const role of ROLES) {
      const { token } = await make(role);
      for (const { method, path, role: needed } of operations) {
        const { status, code } = await ask(`Bearer ${token}`, examplePath(path), method);
        const allowed = ROLES.indexOf(role) >= ROLES.findIndex((one) => one === needed);
        const refused = status === 403 && code === 'role-insufficient';
        if (refused === allowed || status === 401)
          wrong.push(`${role} ${method} ${path}: ${status} ${String(code)}`);
        seen.add(`${needed} ${allowed ? 'let in' : 'refused'}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(seen).toContain('operator refused');
    expect(seen).toContain('operator let in');
  });

  it('let nobody in without a token, on no route and no method', async () => {
    const routes = operations.map(({ method, path }) => [method, examplePath(path)] as const);
    for (const [method, path] of [
      ...routes,
      ['get', '/v1/nothing'],
      ['get', '/v1'],
      ['get', '/metrics'],
    ] as const)
      expect({ path, ...(await ask(null, path, method)) }).toEqual({
        path,
        status: 401,
        code: 'token-missing',
        challenge: 'Bearer realm="chargeonce"',
      });
    expect(await ask(null, '/v1/me', 'head')).toMatchObject({ status: 401 });
  });
});

describe('a token', () => {
  it('is shown once, stored as its hash, and logged with who made it', async () => {
    const made = await make('viewer', '--operator', 'ada', '--expires', '30');
    const stored = await engine.db
      .selectFrom('api_tokens')
      .selectAll()
      .where('token_id', '=', made.id)
      .executeTakeFirstOrThrow();
    expect(JSON.stringify(stored)).not.toContain(made.token.slice(-64));
    expect(stored.secret_hash).toHaveLength(32);
    const days = (Date.parse(made.expires_at) - stored.created_at.getTime()) / 86_400_000;
    expect(days).toBeCloseTo(30, 3);
    const list = z
      .object({ tokens: z.array(z.looseObject({ id: z.string() })) })
      .parse((await tokens('list')).json());
    expect(list.tokens.find(({ id }) => id === made.id)).toMatchObject({ role: 'viewer' });
    expect(JSON.stringify(list)).not.toContain(made.token.slice(-64));
    expect((await logged('token.created')).at(-1)).toMatchObject({
      actor: 'ada',
      details: { tokenId: made.id, name: 'viewer-bot', role: 'viewer' },
    });
  });

  it('says who it is, and notes its use at most once a minute', async () => {
    const { token, id } = await make('operator');
    const answer = await fetch(`${api.url}/v1/me`, {
      headers: { authorization: `bearer ${token}` },
    });
    expect(await answer.json()).toMatchObject({
      name: 'operator-bot',
      role: 'operator',
      token_id: id,
      mode: 'test',
    });
    const used = () =>
      engine.db
        .selectFrom('api_tokens')
        .select('last_used_at')
        .where('token_id', '=', id)
        .executeTakeFirstOrThrow();
    await expect.poll(async () => (await used()).last_used_at).not.toBeNull();
    const before = await used();
    await ask(`Bearer ${token}`);
    expect(await used()).toEqual(before);
  });

  it('ends with its revocation and with its time, and is told apart from a wrong one by nobody', async () => {
    const revoked = await make('admin');
    const expired = await make('admin');
    expect(await ask(`Bearer ${revoked.token}`)).toMatchObject({ status: 200 });
    const done = await tokens('revoke', revoked.token, '--reason', 'left the company');
    expect(done.json()).toEqual({ id: revoked.id, revoked: true, before: false });
    await sql`UPDATE api_tokens SET created_at = now() - interval '2 days', expires_at = now() - interval '1 day'
      WHERE token_id = ${expired.id}`.execute(engine.db);
    const wrong = `cot_${expired.id}_${'0'.repeat(64)}`;
    const answers = [];
    for (const token of [revoked.token, expired.token, wrong, 'cot_1', 'sk_test_1'])
      answers.push(await ask(`Bearer ${token}`));
    for (const answer of answers)
      expect(answer).toEqual({
        status: 401,
        code: 'token-invalid',
        challenge: 'Bearer realm="chargeonce", error="invalid_token"',
      });
    const again = await tokens('revoke', revoked.id, '--reason', 'left the company');
    expect(again.json()).toMatchObject({ revoked: true, before: true });
    expect(
      (await logged('token.revoked')).filter(({ reason }) => reason === 'left the company'),
    ).toHaveLength(1);
  });

  it('is refused by the database without its holder, its end, or a hash of its length', async () => {
    const row = {
      token_id: '0123456789abcdef',
      name: 'olga',
      role: 'viewer' as const,
      secret_hash: Buffer.alloc(32),
      created_by: 'test',
      expires_at: new Date(Date.now() + 60_000),
    };
    const insert = (change: Partial<typeof row>) =>
      refusedBy(
        engine.db
          .insertInto('api_tokens')
          .values({ ...row, ...change })
          .execute(),
      );
    expect(await insert({ name: 'o l' })).toBe('api_token_names_its_holder');
    expect(await insert({ secret_hash: Buffer.alloc(16) })).toBe('api_token_secret_is_hashed');
    expect(await insert({ expires_at: new Date(0) })).toBe('api_token_ends');
    expect(await insert({ token_id: 'X' })).toBe('api_token_id_is_hex');
  });

  it('never reaches a log, but for the part that names it', async () => {
    const { token, id } = await make('viewer');
    expect(redact(`used ${token} of cot_${id}`)).toBe(`used [redacted] of cot_${id}`);
  });

  it('is not made for a name that is none, a role that is none, or for ever', async () => {
    const refused: readonly (readonly [args: readonly string[], said: RegExp])[] = [
      [['--role', 'root'], /Allowed choices are viewer/],
      [['--role', 'viewer', '--name', 'a b'], /letters, digits/],
      [['--role', 'viewer', '--expires', '0'], /number of days/],
      [['--role', 'viewer', '--expires', '10000'], /number of days/],
    ];
    for (const [args, said] of refused)
      await expect(tokens('create', ...args)).rejects.toThrow(said);
    const unknown = await tokens('revoke', 'f'.repeat(16), '--reason', 'x');
    expect(unknown.code).toBe(EXIT.usage);
  });
});

describe('wrong tokens', () => {
  it('are answered before the body is read', async () => {
    const { hostname, port } = new URL(api.url);
    const socket = net.connect(Number(port), hostname);
    socket.write(
      'POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer cot_1\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{',
    );
    const [first] = await once(socket.setEncoding('utf8'), 'data');
    expect(String(first)).toMatch(/^HTTP\/1\.1 401 /);
    socket.destroy();
  });

  it('shut nobody out where it is one that is sent again and again', async () => {
    const own = await startOperatorApi(engine.db, { limits: { failuresPerMinute: FAILURES } });
    const expired = `Bearer cot_${'1'.repeat(16)}_${'2'.repeat(64)}`;
    const send = async (authorization: string) => {
      const answer = await fetch(`${own.url}/metrics`, { headers: { authorization } });
      await answer.body?.cancel();
      return answer.status;
    };
    for (let i = 0; i < 3 * FAILURES; i += 1) expect(await send(expired)).toBe(401);
    const { token } = await make('operator');
    expect(await send(`Bearer ${token}`)).toBe(200);
    await own.close();
  });

  it('are limited for each address, without shutting out tokens that were good lately', async () => {
    const own = await startOperatorApi(engine.db, { limits: { failuresPerMinute: FAILURES } });
    const good = await make('viewer');
    const late = await make('viewer');
    const send = async (token: string) => {
      const answer = await fetch(`${own.url}/v1/me`, {
        headers: { authorization: `Bearer ${token}` },
      });
      await answer.body?.cancel();
      return answer;
    };
    expect((await send(good.token)).status).toBe(200);
    for (let i = 0; i < FAILURES; i += 1) expect((await send(`cot_${i}`)).status).toBe(401);
    const refused = await send('cot_x');
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await send(late.token)).status).toBe(429);
    expect((await send(good.token)).status).toBe(200);
    await tokens('revoke', good.id, '--reason', 'stolen');
    expect((await send(good.token)).status).toBe(401);
    await own.close();
  });
});
