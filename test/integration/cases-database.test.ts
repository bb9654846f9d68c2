import { Readable } from 'node:stream';
import { sql } from 'kysely';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { charge } from '../../src/activities/charge.ts';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { freezeGeneration } from '../../src/activities/frozen.ts';
import { purge } from '../../src/activities/purge.ts';
import { listShard } from '../../src/activities/run.ts';
import { acceptRerun } from '../../src/db/reruns.ts';
import { planRun, readRun } from '../../src/db/runs.ts';
import { insertClaim } from '../../src/db/slots.ts';
import type { RunRef, SlotRef } from '../../src/domain/ids.ts';
import { importCustomers } from '../../src/import/import-customers.ts';
import {
  ageSends,
  attend,
  chargesOf,
  insertCustomers,
  readSlot,
  refusedBy,
  runRef,
  setFaults,
  slotRef,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { until } from '../support/workflow-bench.ts';

// Failures that others had in public; the ids are those of docs/cases.md.

const SNAPSHOT = Array.from({ length: 12 }, (_, i) => `m${String(i).padStart(2, '0')}`);

let engine: Engine;
let month = 0;

/** A period of its own for each test, planned for whoever is a customer then. */
async function planned(): Promise<RunRef> {
  month += 1;
  const run = runRef(`2026-${String(month).padStart(2, '0')}`);
  await planRun(engine.db, run, 'test');
  return run;
}

beforeAll(async () => {
  engine = await startEngine();
  await insertCustomers(engine.db, [
    ...SNAPSHOT.map((id) => ({ id })),
    { id: 'poor', paymentMethod: 'pm_card_visa_chargeDeclined' },
  ]);
});
afterAll(() => engine.close());

function frozenFor(slot: SlotRef) {
  return freezeGeneration(engine.deps, slot, {
    generation: 1,
    stripeCustomerId: `cus_${slot.customerId}`,
    paymentMethodId: 'pm_card_visa',
    amountMinor: 1500,
    currency: 'usd',
    description: null,
  });
}

/** Rows of a table that belong to the run. */
async function rowsOf(table: 'billing_items' | 'billing_charges', run: RunRef): Promise<string[]> {
  const rows = await engine.db
    .selectFrom(table)
    .select('customer_id')
    .where('namespace', '=', run.namespace)
    .where('period', '=', run.period)
    .orderBy('customer_id')
    .execute();
  return rows.map((row) => row.customer_id);
}

/** Successes of one customer in one period, by the provider's own book. */
function successes(slot: SlotRef): number {
  const { groups } = engine.simulator.ledger({ period: slot.period, customer: slot.customerId });
  return groups.reduce((sum, group) => sum + group.succeeded, 0);
}

describe('a claim and its keys', () => {
  it('I8: are written together: a key that is taken leaves no slot, a failing caller leaves nothing', async () => {
    const [taken, slot] = [slotRef('m00', await planned()), slotRef('m01', runRef('2026-01'))];
    await insertClaim(engine.db, taken, frozenFor(taken));
    const mixed = { ...frozenFor(slot), create: frozenFor(taken).create };
    expect(await refusedBy(insertClaim(engine.db, slot, mixed))).toMatch(/charge_generations/);
    const failing = engine.db.transaction().execute(async (trx) => {
      expect(await insertClaim(trx, slot, frozenFor(slot))).toBe(true);
      throw new Error('the caller fails');
    });
    await expect(failing).rejects.toThrow('the caller fails');
    expect(await rowsOf('billing_charges', slot)).toEqual(['m00']);
    const keys = await engine.db
      .selectFrom('charge_generations')
      .select('customer_id')
      .where('period', '=', slot.period)
      .execute();
    expect(keys.map((key) => key.customer_id)).toEqual(['m00', 'm00']);
  });

  it('I8: are not written inside a transaction within a transaction, which would commit on its own', async () => {
    await engine.db.transaction().execute(async (trx) => {
      expect(() => trx.transaction()).toThrow(/transaction/);
    });
  });

  it('I8: of a rerun are undone with its request when the request cannot be frozen', async () => {
    const slot = slotRef('poor', await planned());
    expect(await attend(engine.deps, slot)).toBe('declined');
    const order = { ...slot, requestId: 'i8', operator: 'olga', reason: 'new card' };
    const failing = acceptRerun(engine.db, order, () => {
      throw new Error('no bytes');
    });
    await expect(failing).rejects.toThrow('no bytes');
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'declined', generation: 1 });
    const stored = await engine.db.selectFrom('rerun_requests').select('request_id').execute();
    expect(stored).toEqual([]);
  });

  it('N5: admit one caller even when both speak over one connection, in one transaction', async () => {
    const slot = slotRef('m02', await planned());
    const won = await engine.db.transaction().execute(async (trx) => {
      const first = await insertClaim(trx, slot, frozenFor(slot));
      return [first, await insertClaim(trx, slot, frozenFor(slot))];
    });
    expect(won).toEqual([true, false]);
  });
});

describe('a run that is cut off', () => {
  it('B11: while it is planned leaves no item behind, and plans each customer once when started again', async () => {
    month += 1;
    const run = runRef(`2026-${String(month).padStart(2, '0')}`);
    const rival = new Client({ connectionString: engine.databaseUrl });
    await rival.connect();
    // All items are frozen before the totals: here the plan waits, and is killed.
    await rival.query('BEGIN; LOCK TABLE billing_run_totals IN EXCLUSIVE MODE');
    const plan = planRun(engine.db, run, 'test').then(
      () => 'planned',
      () => 'cut off',
    );
    await until('the plan waits with its items frozen', async () => {
      const { rows } = await sql`
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
          AND query LIKE '%INSERT INTO billing_run_totals%'`.execute(engine.db);
      return rows.length > 0;
    });
    expect(await plan).toBe('cut off');
    await rival.query('ROLLBACK');
    await rival.end();
    expect(await rowsOf('billing_items', run)).toEqual([]);
    expect(await readRun(engine.db, run)).toBeNull();
    for (let start = 0; start < 2; start += 1) {
      expect(await planRun(engine.db, run, 'again')).toMatchObject({ customerCount: 13 });
      expect(await rowsOf('billing_items', run)).toEqual([...SNAPSHOT, 'poor']);
    }
  });

  it.each([
    [0, 'afterCreateReply'],
    [3, 'beforeCreateSent'],
    [3, 'afterConfirmReply'],
    [5, 'beforeRecordCommits'],
  ] as const)(
    'B11: at customer %i (%s) charges each customer once when started again, and calls nobody charged too early',
    async (k, point) => {
      const run = await planned();
      const slots = SNAPSHOT.slice(0, 6).map((id) => slotRef(id, run));
      const dying = engine.with({
        crashPoint: async (at, slot) => {
          if (at === point && slot?.customerId === slots[k]?.customerId) throw new Error('dies');
        },
      });
      const pass = async (deps: typeof dying) => {
        for (const slot of slots) await attend(deps, slot);
      };
      await expect(pass(dying)).rejects.toThrow('dies');
      const halted = await engine.db
        .selectFrom('billing_charges')
        .select(['customer_id', 'state'])
        .where('period', '=', run.period)
        .execute();
      // "charged" stands only where Stripe has said so, and never at the customer it broke off with.
      expect(halted.filter((row) => row.state === 'charged')).toHaveLength(k);
      await pass(engine.deps);
      expect(slots.map(successes)).toEqual(slots.map(() => 1));
      expect(engine.simulator.ledger({ period: run.period }).entries).toHaveLength(slots.length);
    },
  );
});

describe('a purge', () => {
  it('C4: 25 h later leaves a slot in progress, its keys and its sends as they are', async () => {
    const slot = slotRef('m00', await planned());
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.create',
      kind: 'status503',
      limit: 1,
    });
    await claimSlot(engine.deps, slot);
    const lost = charge(engine.deps, { ...slot, generation: 1 }, 1);
    await expect(lost).rejects.toMatchObject({ type: 'ChargeIndeterminate' });
    engine.simulator.setFaults(undefined);
    await ageSends(engine.db, slot, '25 hours');
    const kept = async () => {
      const { rows } = await sql`
        SELECT s.*, g.*, a.* FROM billing_charges s
          JOIN charge_generations g USING (namespace, period, customer_id)
          LEFT JOIN charge_attempts a ON a.idempotency_key = g.idempotency_key
        WHERE s.period = ${slot.period} ORDER BY g.operation`.execute(engine.db);
      return rows;
    };
    const before = await kept();
    expect(before).toHaveLength(2);
    await purge(engine.deps);
    expect(await kept()).toEqual(before);
    for (const table of ['billing_charges', 'charge_generations', 'charge_attempts']) {
      const deleted = sql`DELETE FROM ${sql.table(table)}`.execute(engine.db);
      await expect(deleted).rejects.toMatchObject({ code: expect.stringMatching(/^23/) });
    }
  });
});

describe('a purge of stored responses', () => {
  it('removes those whose time is over, in batches, and never a key in flight', async () => {
    await sql`
      INSERT INTO idempotency_records (principal, endpoint, idempotency_key, fingerprint, holder, state, lease_until,
        completed_at, expires_at, status, headers, body)
      SELECT 'tenant', '*', 'done ' || n, sha256('x'), gen_random_uuid(), 'COMPLETED'::idempotency_state, NULL::timestamptz,
        now() - interval '25 hours', now() + (n - 700) * interval '1 hour', 200, '[]'::jsonb, ''::bytea
      FROM generate_series(1, 710) AS n
      UNION ALL
      SELECT 'tenant', '*', 'in flight', sha256('x'), gen_random_uuid(), 'IN_PROGRESS', now() - interval '30 days',
        NULL, NULL, NULL, NULL, NULL`.execute(engine.db);
    expect(await purge(engine.deps)).toMatchObject({ purged: 700 });
    const left = await rowCounts();
    expect(left).toEqual([
      { state: 'IN_PROGRESS', rows: 1 },
      { state: 'COMPLETED', rows: 10 },
    ]);
  });
});

async function rowCounts() {
  const { rows } = await sql`
    SELECT state, count(*) AS rows FROM idempotency_records GROUP BY state ORDER BY state`.execute(
    engine.db,
  );
  return rows;
}

describe('a list that changes while it is worked through', () => {
  it('S4: gives each customer of the snapshot one slot, and nobody else', async () => {
    const run = await planned();
    const everybody = await rowsOf('billing_items', run);
    for (let after = 0; after < everybody.length; after += 3) {
      // In front of, between and behind the places of the list; gone and switched off, ahead and behind.
      await insertCustomers(
        engine.db,
        [`a${after}`, `m05x${after}`, `z${after}`].map((id) => ({ id })),
      );
      const [gone, off] = [SNAPSHOT[11 - after / 3] ?? '', SNAPSHOT[after / 3] ?? ''];
      await engine.db.deleteFrom('customers').where('customer_id', '=', gone).execute();
      await engine.db
        .updateTable('customers')
        .set({ active: false })
        .where('customer_id', '=', off)
        .execute();
      const page = await listShard(engine.deps, run, { after, upTo: after + 3 });
      for (const { customerId } of page) await attend(engine.deps, { ...run, customerId });
    }
    expect(await rowsOf('billing_charges', run)).toEqual(everybody);
    const good = SNAPSHOT.map((id) => slotRef(id, run));
    expect(good.map(successes)).toEqual(good.map(() => 1));
    expect(chargesOf(engine.simulator, 'a0')).toBe(0);
    expect(engine.simulator.ledger({ period: run.period }).entries).toHaveLength(everybody.length);
  });
});

describe('who a customer is', () => {
  const HEADER = 'customer_id,stripe_customer_id,payment_method_id,amount,currency';
  const imported = (...rows: string[]) =>
    importCustomers({
      db: engine.db,
      input: Readable.from([[HEADER, ...rows, ''].join('\n')]),
      actor: 'test',
    });
  const called = async (name: string) => {
    const { rows } = await sql<{ customer_id: string }>`
      SELECT customer_id FROM customers WHERE lower(customer_id) = ${name} ORDER BY 1`.execute(
      engine.db,
    );
    return rows.map((row) => row.customer_id);
  };

  it('L6: is never an e-mail, in whatever case it is written: both lines are refused, nobody is made', async () => {
    const result = await imported('A@x.org,cus_1,pm_1,5,usd', 'a@x.org,cus_2,pm_2,5,usd');
    const refused = result.ok ? [] : result.problems.map(({ line, column }) => [line, column]);
    expect(refused).toEqual([
      [2, 'customer_id'],
      [3, 'customer_id'],
    ]);
    expect(await called('a@x.org')).toEqual([]);
  });

  it('L7: is told by the exact id: another case is another customer, and one Stripe customer under both is told', async () => {
    const rows = ['Ann,cus_ann,pm_1,5,usd', 'ann,cus_ann,pm_1,5,usd'];
    const result = await imported(...rows);
    expect(result.ok ? result.warnings.join('\n') : 'refused').toContain(
      'Stripe customer cus_ann is shared by Ann, ann: each of them is charged',
    );
    await imported(...rows);
    expect(await called('ann')).toEqual(['Ann', 'ann']);
    const run = await planned();
    const slots = [slotRef('Ann', run), slotRef('ann', run)];
    for (const slot of slots) expect(await attend(engine.deps, slot)).toBe('charged');
    expect(slots.map(successes)).toEqual([1, 1]);
    const keys = await Promise.all(slots.map((slot) => readSlot(engine.db, slot)));
    expect(keys[0]?.idempotency_key).not.toBe(keys[1]?.idempotency_key);
  });
});
