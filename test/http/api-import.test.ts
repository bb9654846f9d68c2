import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase, type Database } from '../../src/db/database.ts';
import { migratedDatabase } from '../support/engine.ts';
import {
  OLGA,
  readAllPages,
  startOperatorApi,
  VERA,
  type OperatorApi,
} from '../support/operator-api.ts';

const HEADER = 'customer_id,stripe_customer_id,payment_method_id,amount,currency';
let database: Database;
let api: OperatorApi;

beforeAll(async () => {
  const url = await migratedDatabase();
  database = openDatabase({ url, applicationName: 'test', onError: () => {} });
  api = await startOperatorApi(database.db);
});
beforeEach(() => database.db.deleteFrom('customers').execute());
afterAll(async () => {
  await api.close();
  await database.close();
});

const upload = (
  bytes: string,
  options: { query?: string; key?: string; as?: typeof VERA; type?: string } = {},
) => {
  const { query = '', key, as = OLGA, type = 'text/csv' } = options;
  return api.call('POST', `/v1/customers/import${query}`, {
    as,
    raw: { type, bytes },
    ...(key === undefined ? {} : { key }),
  });
};

const file = (...lines: readonly string[]): string => [HEADER, ...lines, ''].join('\n');
const good = (id: string, amount = '10.00'): string => `${id},cus_${id},pm_card_visa,${amount},usd`;

const imports = () =>
  database.db
    .selectFrom('audit_log')
    .select(['actor', 'reason'])
    .where('action', '=', 'customers.imported')
    .orderBy('id')
    .execute();

describe('POST /v1/customers/import', () => {
  it('imports all lines, counts them, and logs who and why', async () => {
    const first = await upload(file(good('a'), good('b')), { query: '?reason=price%20list%207' });
    expect(first).toMatchObject({
      status: 200,
      body: { dry_run: false, rows: 2, inserted: 2, updated: 0, unchanged: 0, warnings: [] },
    });
    const second = await upload(file(good('a', '12.50'), good('b')), {
      type: 'text/csv; charset=utf-8',
    });
    expect(second).toMatchObject({ status: 200, body: { inserted: 0, updated: 1, unchanged: 1 } });
    expect(await imports()).toEqual([
      { actor: 'olga', reason: 'price list 7' },
      { actor: 'olga', reason: null },
    ]);
    const { body } = await api.call('GET', '/v1/customers', { as: VERA });
    expect(body).toMatchObject({
      data: [
        {
          customer_id: 'a',
          stripe_customer: 'cus_a',
          payment_method: 'pm_card_visa',
          amount: 1250,
          currency: 'usd',
          active: true,
        },
        { customer_id: 'b', amount: 1000 },
      ],
      next: null,
    });
  });

  it('imports nothing where a line is wrong, and names each problem with its line', async () => {
    const text = file(good('a'), 'b,cus_b,pm_card_visa,ten,usd', good('a'), 'me@home,x,,1.00,usd');
    const { status, body } = await upload(text);
    expect({ status, body }).toMatchObject({
      status: 400,
      body: {
        code: 'import-invalid',
        detail: 'nothing was imported: 4 problems, the first on line 3',
        errors: [
          { in: 'body', line: 3, field: 'amount', problem: expect.stringContaining('"ten"') },
          { line: 4, field: 'customer_id', problem: expect.stringContaining('first on line 2') },
          { line: 5, field: 'customer_id' },
          { line: 5, field: 'stripe_customer_id' },
        ],
      },
    });
    expect(JSON.stringify(body)).not.toContain('me@home');
    expect(await readAllPages(api, '/v1/customers')).toEqual([]);
  });

  it('only tries a file with dry_run, and says what it would change', async () => {
    await upload(file(good('a')));
    const before = await imports();
    const tried = await upload(file(good('a', '99.00'), good('b')), { query: '?dry_run=true' });
    expect(tried).toMatchObject({
      status: 200,
      body: { dry_run: true, rows: 2, inserted: 1, updated: 1 },
    });
    expect(await readAllPages(api, '/v1/customers')).toMatchObject([
      { customer_id: 'a', amount: 1000 },
    ]);
    expect(await imports()).toEqual(before);
  });

  it('answers 409 while another import is being written', async () => {
    await database.db.transaction().execute(async (trx) => {
      await sql`SELECT pg_advisory_xact_lock(hashtextextended('chargeonce.import-customers', 0))`.execute(
        trx,
      );
      expect(await upload(file(good('a')))).toMatchObject({
        status: 409,
        body: { code: 'import-busy' },
      });
    });
    expect(await upload(file(good('a')))).toMatchObject({ status: 200, body: { inserted: 1 } });
  });

  it('sends longer files to the command line', async () => {
    const long = file(...Array.from({ length: 40_000 }, (_, i) => good(`customer${i}`)));
    expect(await upload(long)).toMatchObject({
      status: 413,
      body: {
        code: 'request-too-large',
        detail: expect.stringContaining('chargeonce import customers FILE.csv'),
      },
    });
  });

  it('takes a file of just the size that it allows', async () => {
    const lines = Array.from({ length: 9_000 }, (_, i) => good(`customer${i}`));
    const text = file(...lines);
    const padded = text + '\n'.repeat(1024 * 1024 - Buffer.byteLength(text));
    expect(await upload(padded)).toMatchObject({ status: 200, body: { inserted: 9_000 } });
    expect(await readAllPages(api, '/v1/customers?limit=200')).toHaveLength(9_000);
  });

  it('answers a repeat with the answer of the first, without importing again', async () => {
    const order = { key: 'import-1' };
    const first = await upload(file(good('a')), order);
    await upload(file(good('a', '20.00')));
    const repeat = await upload(file(good('a')), order);
    expect(repeat.body).toEqual(first.body);
    expect(repeat.headers.get('idempotent-replayed')).toBe('true');
    expect(await readAllPages(api, '/v1/customers')).toMatchObject([{ amount: 2000 }]);
    expect(await upload(file(good('b')), order)).toMatchObject({ status: 422 });
  });

  it('takes CSV only, from operators only, and no empty body', async () => {
    expect(await upload('{}', { type: 'application/json' })).toMatchObject({
      status: 415,
      body: { code: 'content-type-unsupported', detail: expect.stringContaining('text/csv') },
    });
    expect(await upload(file(good('a')), { as: VERA })).toMatchObject({ status: 403 });
    expect(await upload('')).toMatchObject({ status: 400 });
    const elsewhere = await api.call('POST', '/v1/runs', {
      raw: { type: 'text/csv', bytes: file(good('a')) },
    });
    expect(elsewhere).toMatchObject({ status: 415 });
  });
});

describe('GET /v1/customers', () => {
  it('refuses a cursor of another list', async () => {
    const after = Buffer.from('["run","a"]').toString('base64url');
    expect(await api.call('GET', `/v1/customers?after=${after}`)).toMatchObject({
      status: 400,
      body: { code: 'parameter-invalid', errors: [{ in: 'query', field: 'after' }] },
    });
  });
});
