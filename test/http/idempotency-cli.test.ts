import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/cli/exit-codes.ts';
import { registerIdempotency } from '../../src/cli/commands/idempotency.ts';
import { postgresStore } from '../support/idempotent-app.ts';
import { runInProcess } from '../support/in-process.ts';

let database: Awaited<ReturnType<typeof postgresStore>>;

beforeAll(async () => {
  database = await postgresStore();
});
afterAll(() => database.close());

const run = (...args: string[]) =>
  runInProcess(registerIdempotency, ['idempotency', ...args], { DATABASE_URL: database.url });

const fingerprint = Buffer.alloc(32, 1);

/** A key whose holder took it and was never heard of again. */
async function interrupted(): Promise<string> {
  const key = randomUUID();
  const claim = { principal: 'deploy-bot', endpoint: '*', key, fingerprint, holder: randomUUID() };
  await database.store.claim({ ...claim, leaseMs: 0, takeover: 'conflict' });
  return key;
}

const claimAgain = (key: string) =>
  database.store.claim({
    principal: 'deploy-bot',
    endpoint: '*',
    key,
    fingerprint,
    holder: randomUUID(),
    leaseMs: 60_000,
    takeover: 'conflict',
  });

const why = ['--principal', 'deploy-bot', '--reason', 'looked at the list', '--operator', 'olga'];

describe('chargeonce idempotency', () => {
  it('lists keys that broke off, and frees one that never ran', async () => {
    const key = await interrupted();
    expect(await claimAgain(key)).toEqual({ kind: 'interrupted' });
    const listed = await run('list', '--json');
    expect(listed.json()).toMatchObject({
      interrupted: [{ principal: 'deploy-bot', endpoint: '*', key }],
    });
    const resolved = await run('resolve', key, '--as', 'never-ran', ...why, '--json');
    expect(resolved.json()).toMatchObject({ answer: 'resolved' });
    expect(await claimAgain(key)).toMatchObject({ kind: 'claimed' });
    const { rows } = await database.pool.query(
      `SELECT actor, reason, details FROM audit_log WHERE action = 'idempotency.resolved'`,
    );
    expect(rows).toEqual([
      {
        actor: 'olga',
        reason: 'looked at the list',
        details: { principal: 'deploy-bot', endpoint: '*', key, status: null },
      },
    ]);
  });

  it('gives one that was done its answer', async () => {
    const key = await interrupted();
    const done = ['--as', 'done', '--status', '201', '--body', '{"id": 7}'];
    expect((await run('resolve', key, ...done, ...why)).code).toBe(EXIT.ok);
    expect(await claimAgain(key)).toMatchObject({
      kind: 'stored',
      response: { state: 'COMPLETED', status: 201, body: Buffer.from('{"id":7}') },
    });
  });

  it('leaves a key alone that is under way, and logs nothing', async () => {
    const key = randomUUID();
    expect(await claimAgain(key)).toMatchObject({ kind: 'claimed' });
    const refused = await run('resolve', key, '--as', 'never-ran', ...why);
    expect(refused.code).toBe(EXIT.failed);
    expect(refused.stderr).toContain('is not interrupted');
    const { rowCount } = await database.pool.query(
      `SELECT 1 FROM audit_log WHERE details->>'key' = $1`,
      [key],
    );
    expect(rowCount).toBe(0);
  });

  it.each([
    ['done without a status', ['--as', 'done']],
    ['a body of something that never ran', ['--as', 'never-ran', '--body', '{}']],
    ['a body that is no JSON', ['--as', 'done', '--status', '200', '--body', '{']],
  ])('refuses %s', async (_what, args) => {
    expect((await run('resolve', 'k', ...args, ...why)).code).toBe(EXIT.usage);
  });
});
