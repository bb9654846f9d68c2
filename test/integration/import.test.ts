import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openDatabase } from '../../src/db/database.ts';
import type { Database } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import type { DB } from '../../src/db/schema.ts';
import { importCustomers } from '../../src/import/import-customers.ts';
import type { ImportResult } from '../../src/import/import-customers.ts';
import { testPostgres } from '../support/postgres.ts';

const EXAMPLE = fileURLToPath(new URL('../../examples/customers.csv', import.meta.url));
const HEADER = 'customer_id,stripe_customer_id,payment_method_id,amount,currency';

let database: Database;
let db: Kysely<DB>;

beforeEach(async () => {
  const server = await testPostgres();
  const template = await server.template('migrated', async (url) => {
    await migrate(url);
  });
  const { url } = await server.createDatabase({ template });
  database = openDatabase({ url, applicationName: 'import-test', onError: () => undefined });
  ({ db } = database);
});

afterEach(() => database.close());

function importText(text: string | Buffer): Promise<ImportResult> {
  return importCustomers({ db, input: Readable.from([Buffer.from(text)]), actor: 'tester' });
}

function lines(...rows: string[]): string {
  return [HEADER, ...rows, ''].join('\n');
}

async function customers() {
  return db.selectFrom('customers').selectAll().orderBy('customer_id').execute();
}

async function auditRows() {
  return db.selectFrom('audit_log').selectAll().execute();
}

function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new Error('the garbage collector is out of reach');
  return () => void collect();
}

/** What was refused, as "line column: message". */
function refusals(result: ImportResult): string[] {
  if (result.ok) throw new Error('the file was imported');
  return result.problems.map(({ line, column, message }) => `${line} ${column}: ${message}`);
}

describe('an import', () => {
  test('takes the 500 example customers and logs who did it, with counts and the hash of the file', async () => {
    const sha256 = createHash('sha256')
      .update(await readFile(EXAMPLE))
      .digest('hex');
    const result = await importCustomers({ db, input: EXAMPLE, actor: 'ada' });
    const counts = { rows: 500, inserted: 500, updated: 0, unchanged: 0, sha256 };
    expect(result).toEqual({ ok: true, ...counts, warnings: [] });
    expect(await customers()).toHaveLength(500);
    expect(await auditRows()).toEqual([
      expect.objectContaining({ actor: 'ada', action: 'customers.imported', details: counts }),
    ]);
  });

  test('stores amounts in the minor unit, currencies in lower case and empty fields as absent', async () => {
    const text =
      '\uFEFFactive,currency,amount,description,payment_method_id,stripe_customer_id,customer_id\r\n' +
      'false,KWD,5.12,"Plan ""A"",\r\nyearly",pm_1,cus_1,a\r\n' +
      ',isk,500,,,cus_2,b\r\n';
    expect(await importText(text)).toMatchObject({ ok: true, rows: 2 });
    const columns = ['amount_minor', 'currency', 'payment_method_id', 'description', 'active'];
    const stored = (await customers()).map((row) =>
      columns.map((column) => Reflect.get(row, column)),
    );
    expect(stored).toEqual([
      [5120, 'kwd', 'pm_1', 'Plan "A",\r\nyearly', false],
      [50_000, 'isk', null, null, true],
    ]);
  });

  test('repeated changes nothing, not even a time stamp', async () => {
    await importCustomers({ db, input: EXAMPLE, actor: 'ada' });
    const before = await customers();
    expect(await importCustomers({ db, input: EXAMPLE, actor: 'ada' })).toMatchObject({
      ok: true,
      inserted: 0,
      updated: 0,
      unchanged: 500,
    });
    expect(await customers()).toEqual(before);
  });

  test('with changes updates the changed rows, adds the new ones and leaves the rest alone', async () => {
    await importText(lines('a,cus_1,pm_1,5,usd', 'b,cus_2,pm_2,5,usd', 'c,cus_3,pm_3,5,usd'));
    const before = await customers();
    const result = await importText(
      lines('a,cus_1,pm_1,5.00,usd', 'b,cus_2,,5,usd', 'd,cus_4,pm_4,9,eur'),
    );
    expect(result).toMatchObject({ ok: true, rows: 3, inserted: 1, updated: 1, unchanged: 1 });
    const after = await customers();
    expect(after.map((row) => [row.customer_id, row.payment_method_id, row.amount_minor])).toEqual([
      ['a', 'pm_1', 500],
      ['b', null, 500],
      ['c', 'pm_3', 500],
      ['d', 'pm_4', 900],
    ]);
    expect(after[0]).toEqual(before[0]);
    expect(after[1]?.updated_at.getTime()).toBeGreaterThan(before[1]?.updated_at.getTime() ?? 0);
    expect(after[1]?.created_at).toEqual(before[1]?.created_at);
  });

  test('never touches the items of a period that is planned', async () => {
    await importText(lines('a,cus_1,pm_1,5,usd'));
    await db
      .insertInto('billing_runs')
      .values({ namespace: 'base', period: '2026-11', customer_count: 1, planned_by: 'tester' })
      .execute();
    await sql`INSERT INTO billing_items (namespace, period, customer_id, position,
        stripe_customer_id, payment_method_id, amount_minor, currency, description)
      SELECT 'base', '2026-11', customer_id, 1, stripe_customer_id, payment_method_id,
             amount_minor, currency, description FROM customers`.execute(db);
    await importText(lines('a,cus_9,pm_9,99,eur'));
    expect(await db.selectFrom('billing_items').selectAll().execute()).toEqual([
      expect.objectContaining({ stripe_customer_id: 'cus_1', amount_minor: 500, currency: 'usd' }),
    ]);
  });

  test('warns of a Stripe customer that two rows share, and of active customers it leaves out', async () => {
    await importText(lines('a,cus_1,pm_1,5,usd', 'z,cus_9,pm_9,5,usd'));
    const result = await importText(lines('b,cus_1,pm_2,5,usd', 'c,cus_3,pm_3,5,usd'));
    expect(result).toMatchObject({
      ok: true,
      warnings: [
        'Stripe customer cus_1 is shared by a, b: each of them is charged',
        '2 active customers are not in this file and will still be charged; import a line with active = false to stop that',
      ],
    });
  });
});

describe('a file with problems', () => {
  test('changes nothing and has every bad line told by number and column', async () => {
    await importText(lines('a,cus_1,pm_1,5,usd'));
    const before = await customers();
    const result = await importText(
      lines(
        'a,cus_1,pm_1,77,usd',
        'b,cus_2,pm_2,1.999,usd',
        '',
        'c,cus_3,pm_3,5,xyz',
        'a,cus_4,pm_4,5,usd',
        'd,cus_5,pm_5,-5,usd',
        'b,cus_6,pm_6,0.10,usd',
        'e,cus_7,pm_7,5',
        'é,cus_8,pm_8,5,usd',
      ),
    );
    expect(refusals(result)).toEqual([
      '3 amount: "1.999" has 3 decimals; USD has at most 2 decimals',
      '5 currency: "xyz" is not a currency Stripe charges in; use an ISO code such as usd',
      '6 customer_id: the customer is there twice, first on line 2',
      '7 amount: "-5" is negative; an amount to charge is 0 or more',
      `8 amount: 0.10 USD is below Stripe's minimum of 0.50 USD; write 0 for nothing to charge`,
      '8 customer_id: the customer is there twice, first on line 3',
      '9 : the line has 4 fields, the header has 5',
      '10 customer_id: the customer id may hold only the letters A-Z a-z, digits, "_", "." and "-"',
    ]);
    expect(await customers()).toEqual(before);
    expect(await auditRows()).toHaveLength(1);
  });

  test('in its last line changes nothing, also when thousands of good lines come first', async () => {
    const good = Array.from({ length: 3500 }, (_, n) => `a${n},cus_${n},pm_1,5,usd`);
    expect(refusals(await importText(lines(...good, 'bad,cus_1,pm_1,x,usd')))).toEqual([
      '3502 amount: "x" is not an amount; write digits with a point for decimals, such as 17.99',
    ]);
    expect(await customers()).toEqual([]);
  });

  test.each([
    ['nothing', '', '0 : no customers: the file is empty'],
    ['only a BOM', '\uFEFF', '0 : no customers: the file is empty'],
    ['only a header', `${HEADER}\r\n`, '0 : no customers: the file has only a header'],
    ['a quote left open', lines('a,"cus_1,pm_1,5,usd'), '2 : a quote opened here is never closed'],
    [
      'a header with semicolons',
      HEADER.replaceAll(',', ';'),
      '1 : the columns are separated by semicolons; save the file with commas',
    ],
    [
      'no currency column',
      'customer_id,stripe_customer_id,payment_method_id,amount\n',
      '1 currency: the column is missing; needed are customer_id, stripe_customer_id, payment_method_id, amount, currency',
    ],
  ])('because it has %s is refused', async (...[, text, expected]) => {
    expect(refusals(await importText(text))).toEqual([expected]);
    expect(await auditRows()).toEqual([]);
  });

  test('that does not exist is refused by its name', async () => {
    const result = await importCustomers({ db, input: '/nowhere/list.csv', actor: 'ada' });
    expect(refusals(result)).toEqual(['0 : cannot read /nowhere/list.csv: there is no such file']);
  });

  test('beyond a thousand has the first thousand listed and all of them counted', async () => {
    const bad = Array.from({ length: 1500 }, (_, n) => `a${n},cus_${n},pm_1,x,usd`);
    const repeated = Array.from({ length: 1200 }, () => 'same,cus_1,pm_1,5,usd');
    const result = await importText(lines(...bad, ...repeated));
    expect(result).toMatchObject({ ok: false, problemCount: 1500 + 1199 });
    expect(refusals(result)).toHaveLength(1000);
  });

  test('whose stream breaks in the middle throws and changes nothing', async () => {
    async function* broken() {
      yield Buffer.from(lines(...Array.from({ length: 2500 }, (_, n) => `a${n},cus_1,,5,usd`)));
      throw new Error('the pipe broke');
    }
    const reading = importCustomers({ db, input: Readable.from(broken()), actor: 'ada' });
    await expect(reading).rejects.toThrow('the pipe broke');
    expect(await customers()).toEqual([]);
  });
});

describe('two imports at once', () => {
  test('of one file end with all customers once and one refusal at most', async () => {
    const results = await Promise.all(
      Array.from({ length: 4 }, () => importCustomers({ db, input: EXAMPLE, actor: 'ada' })),
    );
    const done = results.filter(({ ok }) => ok);
    expect(done.length).toBeGreaterThan(0);
    expect(await auditRows()).toHaveLength(done.length);
    expect(await customers()).toHaveLength(500);
    const refused = results.flatMap((result) => (result.ok ? [] : refusals(result)));
    expect(new Set(refused).size).toBeLessThanOrEqual(1);
  });

  test('do not mix: the second is told to wait while the first is being written', async () => {
    await db.transaction().execute(async (trx) => {
      await sql`SELECT pg_advisory_xact_lock(hashtextextended('chargeonce.import-customers', 0))`.execute(
        trx,
      );
      expect(refusals(await importText(lines('a,cus_1,pm_1,5,usd')))).toEqual([
        '0 : another import is being written right now; try again when it is done',
      ]);
    });
    expect(await importText(lines('a,cus_1,pm_1,5,usd'))).toMatchObject({ ok: true, rows: 1 });
  });
});

describe('a file of 100,000 lines', () => {
  test('is imported in constant memory', async () => {
    const collectGarbage = garbageCollector();
    const heapMb: number[] = [];
    function* manyLines() {
      yield `${HEADER}\n`;
      for (let row = 0; row < 100_000; row += 100) {
        if (row % 20_000 === 0) {
          collectGarbage();
          heapMb.push(process.memoryUsage().heapUsed / 1_048_576);
        }
        const chunk = Array.from({ length: 100 }, (_, n) => {
          const id = String(row + n).padStart(6, '0');
          return `cust_${id},cus_${id},pm_card_visa,17.99,usd`;
        });
        yield `${chunk.join('\n')}\n`;
      }
    }
    const result = await importCustomers({ db, input: Readable.from(manyLines()), actor: 'ada' });
    expect(result).toMatchObject({ ok: true, rows: 100_000, inserted: 100_000 });
    const { total } = await db
      .selectFrom('customers')
      .select((eb) => eb.fn.sum<string>('amount_minor').as('total'))
      .executeTakeFirstOrThrow();
    expect(Number(total)).toBe(179_900_000);
    // Rows kept would cost some 30 MB between the second sample and the last.
    expect((heapMb.at(-1) ?? 0) - (heapMb[1] ?? 0)).toBeLessThan(5);
  });
});
