import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { planRun } from '../../src/db/runs.ts';
import { closeRunKey, findVaultKey, openRunKey } from '../../src/db/vault-keys.ts';
import { Secret } from '../../src/secret.ts';
import { startSimulator, type Simulator } from '../../src/simulator/index.ts';
import type { VaultEvent } from '../../src/vault/events.ts';
import { marksOf } from '../../src/vault/marks.ts';
import { sweepReservations, type SweepDeps } from '../../src/vault/sweep.ts';
import { createUpstream, type Upstream } from '../../src/vault/upstream.ts';
import { insertCustomers, runRef, setFaults } from '../support/engine.ts';
import {
  ageReservations,
  assertLedger,
  startLedger,
  type Ledger,
} from '../support/vault-ledger.ts';
import { ACCOUNT, confirmOf, createOf, keyOrder, LOST } from '../support/vault-orders.ts';

const STRIPE_KEY = 'sk_test_sweep_1';
let ledger: Ledger;
let simulator: Simulator;
let upstream: Upstream;
const events: VaultEvent[] = [];

beforeAll(async () => {
  [ledger, simulator] = await Promise.all([
    startLedger(),
    startSimulator({ endpointRate: 0, accountRate: 0 }),
  ]);
  upstream = createUpstream({
    base: simulator.url,
    secret: new Secret(STRIPE_KEY),
    timeoutMs: 2_000,
  });
});
afterAll(async () => {
  upstream.close();
  await Promise.all([ledger.close(), simulator.close()]);
});
afterEach(async () => {
  simulator.setFaults(undefined);
  await assertLedger(ledger.db);
  assert.deepEqual(events, []);
  // What is still open stays out of the next test's sweeps.
  await ledger.db.transaction().execute(async (trx) => {
    await sql`SET LOCAL session_replication_role = replica`.execute(trx);
    await sql`UPDATE vault_keys SET account = 'acct_of_an_earlier_test'`.execute(trx);
  });
});

function deps(parts: Partial<SweepDeps> = {}): SweepDeps {
  return {
    db: ledger.db,
    upstream,
    account: ACCOUNT,
    liveMode: false,
    quietMs: 60_000,
    onEvent: (event) => events.push(event),
    ...parts,
  };
}
const sweep = (parts?: Partial<SweepDeps>) => sweepReservations(deps(parts), { force: true });

/** A create that the ledger has let out: nothing has been sent yet. */
async function letOut(keyId: string, name: string, amountMinor = 1_000) {
  const metadata = { order: name };
  const order = createOf(keyId, `create-${name}`, {
    amountMinor,
    stripeCustomer: null,
    marks: marksOf(Object.entries(metadata)),
  });
  const { decision } = await ledger.begin(order);
  if (decision !== 'forward') throw new Error(decision);
  return { ...order, metadata };
}

/** Sends a POST to Stripe, as the proxy would. The object's id. */
async function post(path: string, fields: Readonly<Record<string, string>>): Promise<string> {
  const response = await fetch(simulator.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${STRIPE_KEY}`, 'idempotency-key': randomUUID() },
    body: new URLSearchParams(fields),
  });
  return z.object({ id: z.string().default('') }).parse(await response.json()).id;
}

const card = { payment_method: 'pm_card_visa' };
const create = (order: Awaited<ReturnType<typeof letOut>>, fields: Record<string, string> = {}) =>
  post('/v1/payment_intents', {
    amount: String(order.amountMinor),
    currency: 'usd',
    'payment_method_types[0]': 'card',
    'metadata[order]': order.metadata.order,
    ...fields,
  });

/** A create whose reply named its intent. */
async function made(keyId: string, name: string, fields: Record<string, string> = {}) {
  const order = await letOut(keyId, name);
  const objectId = await create(order, fields);
  await ledger.finish(order, { objectId });
  return { order, objectId };
}

/** A confirm that was let out and of which no answer came back. */
async function confirmLost(keyId: string, objectId: string, name: string) {
  const confirm = confirmOf(keyId, objectId, name);
  await ledger.begin(confirm);
  await ledger.finish(confirm, LOST);
}

const stateOf = async (keyId: string) => {
  const { rows } = await sql<{ state: string; reason: string; object_id: string | null }>`
    SELECT state, reason, object_id FROM vault_reservations WHERE key_id = ${keyId} ORDER BY reservation_id`.execute(
    ledger.db,
  );
  return rows;
};

describe('the sweep', () => {
  it('V1: keeps what was reserved and never sent, lists it, and gives it back when two looks agree', async () => {
    const keyId = await ledger.key(1_000);
    await letOut(keyId, 'v1');
    // As at the start after a kill: nobody holds anything in memory.
    await sweep();
    expect(await stateOf(keyId)).toMatchObject([{ state: 'held', reason: 'not_found' }]);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 1_000 });
    await ageReservations(ledger.db, keyId, '61 seconds');
    await sweep();
    expect(await stateOf(keyId)).toMatchObject([{ state: 'held' }]);
    await ageReservations(ledger.db, keyId, '59 seconds');
    await sweep();
    expect(await stateOf(keyId)).toMatchObject([{ state: 'held' }]);
    await ageReservations(ledger.db, keyId, '2 seconds');
    await sweep();
    expect(await stateOf(keyId)).toMatchObject([{ state: 'released', reason: 'not_found' }]);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 0 });
  });

  it('settles a confirm that Stripe carried out although its answer was lost', async () => {
    const keyId = await ledger.key(1_000);
    const { objectId } = await made(keyId, 'lost-confirm', card);
    await post(`/v1/payment_intents/${objectId}/confirm`, card);
    await confirmLost(keyId, objectId, 'confirm-lost');
    expect(await sweep()).toMatchObject({ looked: 1, spent: 1, failed: 0 });
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 1_000 });
  });

  it('finds the intent of a create whose answer was lost, by its metadata, and settles it', async () => {
    const keyId = await ledger.key(3_000);
    const other = await letOut(keyId, 'other-of-the-same-sum');
    const order = await letOut(keyId, 'lost-create');
    const objectId = await create(order, { ...card, confirm: 'true' });
    await ledger.finish(order, LOST);
    await sweep();
    expect(await stateOf(keyId)).toMatchObject([
      { state: 'held', object_id: null },
      { state: 'spent', object_id: objectId },
    ]);
    await ledger.finish(other, LOST);
  });

  it('holds what may still become money, and gives back at once what was canceled', async () => {
    const keyId = await ledger.key(10_000);
    const capture = await made(keyId, 'capture', { ...card, capture_method: 'manual' });
    await post(`/v1/payment_intents/${capture.objectId}/confirm`, {});
    const canceled = await made(keyId, 'canceled', card);
    await post(`/v1/payment_intents/${canceled.objectId}/cancel`, {});
    await sweep();
    expect(await stateOf(keyId)).toMatchObject([
      { state: 'held', reason: 'requires_capture' },
      { state: 'released', reason: 'canceled' },
    ]);
    await ageReservations(ledger.db, keyId, '1 day');
    await sweep();
    expect((await stateOf(keyId))[0]).toMatchObject({ state: 'held', reason: 'requires_capture' });
  });

  it('M20: holds when the look-up fails, however often and however late', async () => {
    const keyId = await ledger.key(2_000);
    await letOut(keyId, 'failing');
    const { objectId } = await made(keyId, 'failing-by-object', card);
    await confirmLost(keyId, objectId, 'confirm-failing');
    setFaults(
      simulator,
      { endpoint: 'payment_intents.list', kind: 'status503' },
      { endpoint: 'payment_intents.retrieve', kind: 'fail500' },
    );
    for (let look = 0; look < 3; look += 1) {
      expect(await sweep()).toMatchObject({ released: 0 });
      await ageReservations(ledger.db, keyId, '1 day');
    }
    expect(await stateOf(keyId)).toMatchObject([
      { state: 'held', reason: 'look_failed' },
      { state: 'held', reason: 'look_failed' },
    ]);
  });

  it('starts the quiet time anew after a look that failed between two that saw nothing', async () => {
    const keyId = await ledger.key(1_000);
    await letOut(keyId, 'broken-silence');
    await ageReservations(ledger.db, keyId, '61 seconds');
    await sweep();
    setFaults(simulator, { endpoint: 'payment_intents.list', kind: 'status503' });
    await sweep();
    simulator.setFaults(undefined);
    await ageReservations(ledger.db, keyId, '61 seconds');
    await sweep();
    expect(await stateOf(keyId)).toMatchObject([{ state: 'held', reason: 'not_found' }]);
  });

  it('gives nothing back on a look that began before the last send', async () => {
    const keyId = await ledger.key(1_000);
    const { objectId } = await made(keyId, 'overtaken', card);
    await ageReservations(ledger.db, keyId, '61 seconds');
    await sweep();
    await ageReservations(ledger.db, keyId, '61 seconds');
    // While the second look is under way, the confirm leaves and Stripe carries it out.
    const slow: Pick<Upstream, 'get'> = {
      async get(path) {
        const read = await upstream.get(path);
        await ledger.begin(confirmOf(keyId, objectId, 'confirm-overtaking'));
        await post(`/v1/payment_intents/${objectId}/confirm`, card);
        return read;
      },
    };
    await sweep({ upstream: slow });
    expect(await stateOf(keyId)).toMatchObject([{ state: 'held' }]);
    await sweep();
    expect(await stateOf(keyId)).toMatchObject([{ state: 'spent' }]);
  });

  it('holds when an intent alike has money and nobody accounts for it: its metadata may be new', async () => {
    const keyId = await ledger.key(2_000);
    const order = await letOut(keyId, 'renamed', 1_234);
    const renamed = { ...order, metadata: { order: 'renamed by a webhook' } };
    await create(renamed, { ...card, confirm: 'true' });
    await ledger.finish(order, LOST);
    for (let look = 0; look < 3; look += 1) {
      await sweep();
      await ageReservations(ledger.db, keyId, '10 minutes');
    }
    expect(await stateOf(keyId)).toMatchObject([
      { state: 'held', reason: 'found_with_other_marks' },
    ]);
  });

  it('leaves alone what is not due, and what the key of another account reserved', async () => {
    const keyId = await ledger.key(1_000);
    await letOut(keyId, 'not-due');
    expect(await sweepReservations(deps())).toMatchObject({ looked: 0 });
    await sql`UPDATE vault_reservations SET next_look_at = now() WHERE key_id = ${keyId}`.execute(
      ledger.db,
    );
    expect(await sweepReservations(deps({ account: 'acct_other' }))).toMatchObject({ looked: 0 });
    expect(await sweepReservations(deps())).toMatchObject({ looked: 1, held: 1 });
  });

  it('in two processes at once looks at each reservation that is due once, and settles it once', async () => {
    const keyId = await ledger.key(60_000);
    const confirmed = await Promise.all(
      Array.from({ length: 12 }, (_, i) => made(keyId, `both-${i}`, card)),
    );
    for (const { objectId } of confirmed) {
      await post(`/v1/payment_intents/${objectId}/confirm`, card);
      await confirmLost(keyId, objectId, `confirm-${objectId}`);
    }
    await sql`UPDATE vault_reservations SET next_look_at = now() WHERE key_id = ${keyId}`.execute(
      ledger.db,
    );
    const reports = await Promise.all([
      sweepReservations(deps()),
      sweepReservations(deps({ db: ledger.pool().db })),
    ]);
    expect(reports.reduce((sum, { spent }) => sum + spent, 0)).toBe(12);
    expect(reports.reduce((sum, { looked }) => sum + looked, 0)).toBe(12);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 12_000 });
  });

  it('settles once when a lost answer comes in while it looks', async () => {
    const keyId = await ledger.key(1_000);
    const { objectId } = await made(keyId, 'late-answer', card);
    await post(`/v1/payment_intents/${objectId}/confirm`, card);
    const confirm = confirmOf(keyId, objectId, 'confirm-late-answer');
    await ledger.begin(confirm);
    const [report, effect] = await Promise.all([
      sweep(),
      ledger.finish(confirm, { to: 'spent', reason: 'succeeded' }),
    ]);
    expect([report.failed, effect]).toEqual([0, 'spent']);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 1_000 });
  });

  it('closes the key of a run that is over, once, and leaves the key of an open run', async () => {
    await insertCustomers(ledger.db, [{ id: 'alice' }]);
    const [over, open] = [runRef('2030-01'), runRef('2030-02')];
    const keys = [];
    for (const run of [over, open]) {
      await planRun(ledger.db, run, 'test');
      const { keyId, secretHash, allowedEndpoints, expiresAt } = keyOrder(1);
      const opened = await openRunKey(ledger.db, {
        run,
        keyId,
        secretHash,
        allowedEndpoints,
        expiresAt,
        account: ACCOUNT,
        liveMode: false,
        actor: 'worker',
      });
      expect(opened.kind).toBe('open');
      keys.push(keyId);
    }
    await sql`UPDATE billing_runs SET state = 'completed', completed_at = now() WHERE period = '2030-01'`.execute(
      ledger.db,
    );
    const reports = await Promise.all([sweep(), sweep()]);
    expect(reports.flatMap(({ closedKeys }) => closedKeys)).toEqual([keys[0]]);
    const [closed, stillOpen] = await Promise.all(
      keys.map((keyId) => findVaultKey(ledger.db, keyId)),
    );
    expect(closed?.openUntil?.getTime()).toBeLessThanOrEqual(Date.now());
    expect(stillOpen?.openUntil).toBeNull();
    expect(await closeRunKey(ledger.db, open, 'worker')).toBe(true);
    expect(await closeRunKey(ledger.db, open, 'worker')).toBe(false);
  });
});
