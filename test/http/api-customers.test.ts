import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase, type Database } from '../../src/db/database.ts';
import { CUSTOMER_OUTCOMES, listRunCustomers } from '../../src/db/run-customers.ts';
import { migratedDatabase, runRef } from '../support/engine.ts';
import { readAllPages, startOperatorApi, VERA, type OperatorApi } from '../support/operator-api.ts';

const PERIOD = '2031-01';
const PATH = `/v1/runs/${PERIOD}/customers`;
const CUSTOMERS = 60;
let database: Database;
let api: OperatorApi;

beforeAll(async () => {
  database = openDatabase({
    url: await migratedDatabase(),
    applicationName: 'test',
    onError: () => {},
  });
  await fill(PERIOD, CUSTOMERS);
  api = await startOperatorApi(database.db);
});
afterAll(async () => {
  await api.close();
  await database.close();
});

const idOf = (n: number): string => `c${String(n).padStart(7, '0')}`;

/** A planned run: of each ten customers one in each outcome, of those declined two reasons in turn. */
async function fill(period: string, customers: number, namespace = 'base'): Promise<void> {
  const tag = namespace === 'base' ? period : period + namespace;
  await sql`INSERT INTO billing_runs (namespace, period, customer_count, planned_by)
    VALUES (${namespace}, ${period}, ${customers}, 'test')`.execute(database.db);
  await sql`
    INSERT INTO billing_items (namespace, period, customer_id, position, stripe_customer_id, amount_minor, currency)
    SELECT ${namespace}, ${period}, 'c' || lpad(g::text, 7, '0'), g, 'cus_' || g, 100 + g, 'usd'
    FROM generate_series(1, ${customers}::integer) g`.execute(database.db);
  await sql`
    INSERT INTO billing_charges (namespace, period, customer_id, state, idempotency_key, payment_intent_id, charge_id, reason, advice)
    SELECT ${namespace}, ${period}, 'c' || lpad(g::text, 7, '0'), state::slot_state, ${tag} || g, 'pi_' || ${tag} || g,
      CASE WHEN state = 'charged' THEN 'ch_' || ${tag} || g END,
      CASE WHEN state NOT IN ('charged', 'claimed', 'sent') THEN CASE WHEN g % 20 < 10 THEN state || '_a' ELSE state || '_b' END END,
      CASE WHEN state = 'declined' THEN 'ask for another card' END
    FROM generate_series(1, ${customers}::integer) g, LATERAL (
      SELECT (${[...CUSTOMER_OUTCOMES]}::text[])[g % 10 + 1] AS state) s
    WHERE state <> 'unclaimed'`.execute(database.db);
}

describe('GET /v1/runs/{period}/customers', () => {
  it('shows each customer of the plan once, over pages of any size', async () => {
    const expected = Array.from({ length: CUSTOMERS }, (_, i) => idOf(i + 1));
    for (const limit of [1, 7, 60, 200]) {
      const rows = await readAllPages(api, `${PATH}?limit=${limit}`);
      expect(rows.map((row) => row['customer_id'])).toEqual(expected);
    }
  });

  it('shows what is due, how it stands and why', async () => {
    const { status, body } = await api.call('GET', `${PATH}?outcome=declined&limit=1`, {
      as: VERA,
    });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: {
        data: [
          {
            customer_id: idOf(4),
            stripe_customer: 'cus_4',
            amount: 104,
            currency: 'usd',
            outcome: 'declined',
            reason: 'declined_a',
            advice: 'ask for another card',
            generation: 1,
            payment_intent: `pi_${PERIOD}4`,
            charge: null,
            settled_at: null,
          },
        ],
        next: expect.any(String),
      },
    });
  });

  it.each(CUSTOMER_OUTCOMES)('filters by the outcome %s', async (outcome) => {
    const rows = await readAllPages(api, `${PATH}?outcome=${outcome}&limit=4`);
    expect(rows).toHaveLength(CUSTOMERS / 10);
    expect(rows.map((row) => row['outcome'])).toEqual(rows.map(() => outcome));
  });

  it('filters by reason, alone and with an outcome', async () => {
    const alone = await readAllPages(api, `${PATH}?reason=skipped_b&limit=2`);
    expect(alone.map((row) => row['customer_id'])).toEqual([18, 38, 58].map((n) => idOf(n)));
    const both = await readAllPages(api, `${PATH}?reason=skipped_b&outcome=skipped`);
    expect(both).toEqual(alone);
    expect(await readAllPages(api, `${PATH}?reason=skipped_b&outcome=declined`)).toEqual([]);
    expect(await readAllPages(api, `${PATH}?reason=skipped_b&outcome=unclaimed`)).toEqual([]);
  });

  it('neither repeats nor skips anybody while slots move between the pages', async () => {
    const period = '2031-02';
    await fill(period, 40);
    let moved = 0;
    const rows = await readAllPages(api, `/v1/runs/${period}/customers?limit=3`, async () => {
      moved += 1;
      await sql`UPDATE billing_charges SET state = 'sent' WHERE period = ${period} AND state = 'claimed'
        AND customer_id = (SELECT max(customer_id) FROM billing_charges WHERE period = ${period} AND state = 'claimed')`.execute(
        database.db,
      );
      await sql`UPDATE billing_charges SET state = 'in_review' WHERE period = ${period} AND state = 'indeterminate'
        AND customer_id = (SELECT min(customer_id) FROM billing_charges WHERE period = ${period} AND state = 'indeterminate')`.execute(
        database.db,
      );
    });
    expect(moved).toBeGreaterThan(10);
    expect(rows.map((row) => row['customer_id'])).toEqual(
      Array.from({ length: 40 }, (_, i) => idOf(i + 1)),
    );
    // Nobody who stays declined is lost between pages from which others vanish.
    const declined = await readAllPages(
      api,
      `/v1/runs/${period}/customers?outcome=declined&limit=1`,
    );
    expect(declined).toHaveLength(4);
  });

  it('keeps namespaces apart', async () => {
    await fill(PERIOD, 10, 'overage');
    expect(await readAllPages(api, `${PATH}?namespace=overage`)).toHaveLength(10);
    expect(await readAllPages(api, PATH)).toHaveLength(CUSTOMERS);
  });

  it.each([
    ['after=nonsense', 'after'],
    [`after=${Buffer.from('["imported","c1"]').toString('base64url')}`, 'after'],
    [`after=${Buffer.from('["run","\\u0000"]').toString('base64url')}`, 'after'],
    ['outcome=failed', 'outcome'],
    ['reason=%00', 'reason'],
    ['limit=0', 'limit'],
    ['limit=100000', 'limit'],
    ['namespace=BASE', 'namespace'],
    ['page=2', 'page'],
  ])('refuses ?%s and names the field', async (query, field) => {
    const { status, body } = await api.call('GET', `${PATH}?${query}`);
    expect({ status, body }).toMatchObject({
      status: 400,
      body: { code: 'parameter-invalid', errors: [{ in: 'query', field }] },
    });
  });

  it('answers 404 for a period that was never planned, and 400 for one that is none', async () => {
    const unknown = await api.call('GET', '/v1/runs/2040-01/customers');
    expect(unknown).toMatchObject({ status: 404, body: { code: 'run-unknown' } });
    const none = await api.call('GET', '/v1/runs/2040-13/customers');
    expect(none).toMatchObject({ status: 400, body: { code: 'path-invalid' } });
  });

  it('goes through a long list of claimed customers in bounded pages, for those without a slot', async () => {
    const run = runRef(PERIOD);
    // Five looks of two items each: a page ends behind the tenth item, full or not.
    const query = { outcome: 'unclaimed' as const, reason: null, limit: 3, stretch: 2 };
    const pages: (readonly string[])[] = [];
    for (let after: string | null = ''; after !== null;) {
      const page = await listRunCustomers(database.db, run, { ...query, after });
      pages.push(page.customers.map((customer) => customer.customerId));
      after = page.next;
    }
    expect(pages.flat()).toEqual([10, 20, 30, 40, 50, 60].map((n) => idOf(n)));
    expect(pages).toHaveLength(7);
  });
});

describe('the reads behind lists and stories', () => {
  const page = "customer_id > 'c0000100'";
  const of = `namespace = 'base' AND period = '${PERIOD}' AND customer_id = 'c0000001'`;
  it.each([
    ['billing_charges', `state = 'declined' AND ${page}`, 'slots_by_state'],
    ['billing_charges', `reason = 'skipped_b' AND ${page}`, 'slots_by_reason'],
    ['audit_log', of, 'audit_by_customer'],
    ['webhook_events', of, 'webhook_events_by_customer'],
  ])('read %s where %s out of the index %s, without sorting', async (table, condition, index) => {
    // As with a long list: a table of a few pages is read whole.
    const plan = await database.db.transaction().execute(async (trx) => {
      await sql`SET LOCAL enable_seqscan = off`.execute(trx);
      await sql`SET LOCAL enable_bitmapscan = off`.execute(trx);
      return sql<{ 'QUERY PLAN': string }>`
        EXPLAIN SELECT * FROM ${sql.table(table)} WHERE namespace = 'base' AND period = ${PERIOD}
          AND ${sql.raw(condition)} ORDER BY customer_id LIMIT 51`.execute(trx);
    });
    const text = plan.rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(text).toContain(index);
    expect(text).not.toContain('Sort');
  });
});
