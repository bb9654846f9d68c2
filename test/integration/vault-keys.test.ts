import { randomBytes, randomUUID } from 'node:crypto';
import { sql, type RawBuilder } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { planRun } from '../../src/db/runs.ts';
import { claimAlerts, noteDelivery, raiseAlert } from '../../src/db/vault-alerts.ts';
import {
  closeRunKey,
  extendExpiry,
  findVaultKey,
  insertVaultKey,
  listVaultKeys,
  openRunKey,
  raiseCap,
  readBudgets,
  readRunTotals,
  revokeVaultKey,
  type RunKeyOrder,
} from '../../src/db/vault-keys.ts';
import { noteRefused } from '../../src/db/vault-ledger.ts';
import { readVaultLog } from '../../src/db/vault-log.ts';
import { readDrift, type DriftRow } from '../../src/db/vault-drift.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { insertCustomers, runRef } from '../support/engine.ts';
import { assertLedger, startLedger, type Ledger } from '../support/vault-ledger.ts';
import { confirmOf, createOf, DECLINED, keyOrder, SUCCEEDED } from '../support/vault-orders.ts';

let ledger: Ledger;
const run = runRef('2031-01');
const by = { operator: 'olga', reason: 'agreed by phone' };

beforeAll(async () => {
  ledger = await startLedger(25);
  await insertCustomers(ledger.db, [
    { id: 'alice', amountMinor: 1_001 },
    { id: 'bob', amountMinor: 1_000 },
    { id: 'carol', amountMinor: 700, currency: 'eur' },
    { id: 'cardless', amountMinor: 5_000, paymentMethod: null },
  ]);
  await planRun(ledger.db, run, 'test');
});
afterAll(() => ledger.close());

function orderOf(of: RunRef, parts: Partial<RunKeyOrder> = {}): RunKeyOrder {
  const { keyId, secretHash, account, liveMode, allowedEndpoints, expiresAt } = keyOrder(1);
  return {
    run: of,
    keyId,
    secretHash,
    account,
    liveMode,
    allowedEndpoints,
    expiresAt,
    actor: 'worker',
    ...parts,
  };
}

const changesOf = async (keyId: string) => {
  const { rows } = await sql<{ actor: string; action: string; reason: string | null }>`
    SELECT actor, action, reason FROM vault_key_changes WHERE key_id = ${keyId} ORDER BY id`.execute(
    ledger.db,
  );
  return rows;
};

describe('the key of a run', () => {
  it('is made once by twenty at once, with ten per cent above the frozen plan per currency', async () => {
    const order = orderOf(run);
    const opened = await Promise.all(
      Array.from({ length: 20 }, () => openRunKey(ledger.db, order)),
    );
    const [first] = opened;
    expect(opened.every(({ kind }) => kind === 'open')).toBe(true);
    expect(new Set(opened.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(first).toMatchObject({
      key: { keyId: order.keyId, openUntil: null, namespace: 'base', period: '2031-01' },
      budgets: [
        { currency: 'eur', capMinor: 770, expectedMinor: 700, reservedMinor: 0, spentMinor: 0 },
        { currency: 'usd', capMinor: 2_202, expectedMinor: 2_001, reservedMinor: 0, spentMinor: 0 },
      ],
    });
    expect(await changesOf(order.keyId)).toMatchObject([{ actor: 'worker', action: 'created' }]);
  });

  it('keeps its counts and its raised cap when it is opened again, with a rotated secret too', async () => {
    const again = runRef('2031-02');
    await planRun(ledger.db, again, 'test');
    const order = orderOf(again);
    await openRunKey(ledger.db, order);
    await raiseCap(ledger.db, { keyId: order.keyId, currency: 'eur', capMinor: 1_000, ...by });
    const paid = { namespace: 'base', period: '2031-02', currency: 'eur', amountMinor: 700 };
    await ledger.begin(createOf(order.keyId, 'carol', paid));
    const rotated = await openRunKey(ledger.db, { ...order, secretHash: randomBytes(32) });
    expect(rotated).toMatchObject({
      budgets: [{ currency: 'eur', capMinor: 1_000, reservedMinor: 700 }, { currency: 'usd' }],
    });
    expect((await changesOf(order.keyId)).map(({ action }) => action)).toEqual([
      'created',
      'cap_raised',
      'secret_rotated',
    ]);
  });

  it('is not made for a run that was never planned, and has no caps when nothing is chargeable', async () => {
    expect(await openRunKey(ledger.db, orderOf(runRef('2031-03')))).toEqual({ kind: 'notPlanned' });
    expect(await readRunTotals(ledger.db, runRef('2031-03'))).toBeNull();
    const free = runRef('2031-04');
    await sql`INSERT INTO billing_runs (namespace, period, customer_count, planned_by)
      VALUES ('base', '2031-04', 1, 'test')`.execute(ledger.db);
    expect(await openRunKey(ledger.db, orderOf(free))).toMatchObject({ kind: 'open', budgets: [] });
  });

  it('stays revoked, and opens for minutes only once its run is over', async () => {
    const over = runRef('2031-05');
    await planRun(ledger.db, over, 'test');
    const order = orderOf(over);
    await openRunKey(ledger.db, order);
    await sql`UPDATE billing_runs SET state = 'completed', completed_at = now()
      WHERE period = '2031-05'`.execute(ledger.db);
    expect(await closeRunKey(ledger.db, over, 'worker')).toBe(true);
    expect(await closeRunKey(ledger.db, over, 'worker')).toBe(false);
    const late = await openRunKey(ledger.db, order);
    const minutes =
      late.kind === 'open' ? ((late.key.openUntil?.getTime() ?? 0) - Date.now()) / 60_000 : 0;
    expect(minutes).toBeGreaterThan(14);
    expect(minutes).toBeLessThan(16);
    expect(await revokeVaultKey(ledger.db, { keyId: order.keyId, ...by })).toBe(true);
    expect(await revokeVaultKey(ledger.db, { keyId: order.keyId, ...by })).toBe(true);
    expect(await openRunKey(ledger.db, order)).toEqual({ kind: 'revoked' });
    expect((await changesOf(order.keyId)).map(({ action }) => action)).toEqual([
      'created',
      'closed',
      'opened',
      'revoked',
    ]);
  });
});

describe('a key', () => {
  it('V11: reads back as it was made, with its caps', async () => {
    const order = keyOrder(0, {
      capBasis: 'day',
      allowedEndpoints: ['POST /v1/payment_intents', 'GET /v1/payment_intents/:id'],
      caps: [
        { currency: 'jpy', capMinor: 9_007_199_254_740_991, expectedMinor: null },
        { currency: 'usd', capMinor: 5_000, expectedMinor: 4_000 },
      ],
    });
    await insertVaultKey(ledger.db, order);
    const { caps, actor, ...parts } = order;
    expect(await findVaultKey(ledger.db, order.keyId)).toMatchObject({
      ...parts,
      createdBy: actor,
      openUntil: null,
      revokedAt: null,
    });
    expect(await readBudgets(ledger.db, order.keyId)).toEqual(
      caps.map((cap) => ({ ...cap, window: '', reservedMinor: 0, spentMinor: 0 })),
    );
    expect((await listVaultKeys(ledger.db)).map(({ keyId }) => keyId)).toContain(order.keyId);
    expect(await findVaultKey(ledger.db, 'ffffffffffffffff')).toBeNull();
  });

  it('is raised and extended, never the other way, each with who and why', async () => {
    const keyId = await ledger.key(100);
    const to = (capMinor: number, currency = 'usd') =>
      raiseCap(ledger.db, { keyId, currency, capMinor, ...by });
    expect(await to(99)).toBe('notRaised');
    expect(await to(100)).toBe('notRaised');
    expect(await to(100, 'eur')).toBe('noCap');
    expect(await to(150)).toBe('raised');
    expect(await ledger.budget(keyId)).toMatchObject({ capMinor: 150 });
    const later = (hours: number) =>
      extendExpiry(ledger.db, {
        keyId,
        expiresAt: new Date(Date.now() + hours * 3_600_000),
        ...by,
      });
    expect([await later(0.5), await later(2)]).toEqual([false, true]);
    expect(await changesOf(keyId)).toMatchObject([
      { action: 'created' },
      { action: 'cap_raised', actor: 'olga', reason: 'agreed by phone' },
      { action: 'expiry_extended', actor: 'olga', reason: 'agreed by phone' },
    ]);
  });

  it('is raised for the day whose first reservation comes at the same time', async () => {
    for (let round = 0; round < 10; round += 1) {
      const keyId = await ledger.key(10, { capBasis: 'day' });
      await Promise.all([
        ledger.begin(createOf(keyId, `day-${round}`)),
        raiseCap(ledger.db, { keyId, currency: 'usd', capMinor: 20, ...by }),
      ]);
      const next = await ledger.begin(createOf(keyId, `day-${round}-next`));
      expect(next.decision).toBe('forward');
    }
  });
});

describe('the vault log', () => {
  it('O3: shows every request with its answer and where its reservation stands, oldest first', async () => {
    const keyId = await ledger.key(1_000);
    const names = { namespace: 'base', period: '2031-09', customerId: 'dave' };
    const create = createOf(keyId, 'log-create', { ...names, attemptId: 'attempt-1' });
    await ledger.begin(create);
    await ledger.finish(create, { objectId: 'pi_log', stripeRequestId: 'req_create' });
    const confirm = confirmOf(keyId, 'pi_log', 'log-confirm');
    await ledger.begin(confirm);
    await ledger.finish(confirm, { ...DECLINED, stripeRequestId: 'req_declined' });
    await noteRefused(ledger.db, {
      requestId: randomUUID(),
      keyId,
      idempotencyKey: null,
      attemptId: null,
      method: 'POST',
      path: '/v1/payouts',
      code: 'endpoint_not_allowed',
    });
    const rows = await readVaultLog(ledger.db, { keyId, limit: 10 });
    expect(rows).toMatchObject([
      {
        idempotencyKey: 'log-create',
        attemptId: 'attempt-1',
        decision: 'forward',
        amountMinor: 10,
        currency: 'usd',
        ...names,
        answer: { status: 200, stripeRequestId: 'req_create', replayed: false, effect: 'held' },
        reservation: { state: 'released', reason: 'card_declined', objectId: 'pi_log' },
      },
      {
        idempotencyKey: 'log-confirm',
        // of the create: a confirm names nobody
        ...names,
        answer: { status: 402, effect: 'released' },
        reservation: { objectId: 'pi_log' },
      },
      { decision: 'endpoint_not_allowed', amountMinor: null, answer: null, reservation: null },
    ]);
    const found = (query: object) => readVaultLog(ledger.db, { ...query, limit: 10 });
    expect(await found({ idempotencyKey: 'log-confirm' })).toHaveLength(1);
    expect(await found({ customerId: 'dave', period: '2031-09' })).toHaveLength(2);
    expect(await found({ period: '2031-10' })).toEqual([]);
    expect(await readVaultLog(ledger.db, { keyId, limit: 1 })).toEqual(rows.slice(2));
  });
});

describe('the drift check', () => {
  it('names the window whose count, ledger, reservations or audit differ, and nothing else', async () => {
    const keyId = await ledger.key(1_000);
    const order = createOf(keyId, 'drift');
    await ledger.begin(order);
    await ledger.finish(order, { ...SUCCEEDED, objectId: 'pi_drift' });
    await assertLedger(ledger.db);
    for (const damage of [
      sql`UPDATE vault_windows SET used_minor = 9 WHERE key_id = ${keyId}`,
      sql`DELETE FROM vault_ledger WHERE key_id = ${keyId} AND entry = 'settle'`,
      sql`UPDATE vault_reservations SET amount_minor = 9 WHERE key_id = ${keyId}`,
      sql`UPDATE vault_requests SET amount_minor = 9 WHERE key_id = ${keyId}`,
    ]) {
      expect(await driftAfter(damage)).toMatchObject([{ keyId, currency: 'usd', window: '' }]);
    }
    await assertLedger(ledger.db);
  });
});

/** Which windows differ after the damage, which is taken back again. */
async function driftAfter(damage: RawBuilder<unknown>): Promise<readonly DriftRow[]> {
  let differing: readonly DriftRow[] = [];
  const undo = new Error('taken back');
  const done = ledger.db.transaction().execute(async (trx) => {
    await sql`SET LOCAL session_replication_role = replica`.execute(trx);
    await damage.execute(trx);
    ({ differing } = await readDrift(trx));
    throw undo;
  });
  await done.catch((error: unknown) => {
    if (error !== undo) throw error;
  });
  return differing;
}

describe('an alert', () => {
  it('is raised once by twenty at once, claimed by one, and tried again until it is delivered', async () => {
    const keyId = await ledger.key(1);
    const alert = {
      onceKey: `cap:${keyId}`,
      kind: 'spend_cap_exceeded',
      keyId,
      details: { used: 1 },
    } as const;
    const raised = await Promise.all(
      Array.from({ length: 20 }, () => raiseAlert(ledger.db, alert)),
    );
    expect(raised.filter(Boolean)).toHaveLength(1);
    const claimed = await Promise.all([claimAlerts(ledger.db, 5), claimAlerts(ledger.db, 5)]);
    const [one] = claimed.flat();
    expect(claimed.flat()).toMatchObject([{ ...alert, tries: 1, webhookDone: false }]);
    const alertId = one?.alertId ?? 0;
    await noteDelivery(ledger.db, { alertId, webhook: true, slack: false, done: false });
    expect(await claimAlerts(ledger.db, 5)).toEqual([]);
    await sql`UPDATE vault_alerts SET next_try_at = now()`.execute(ledger.db);
    expect(await claimAlerts(ledger.db, 5)).toMatchObject([
      { tries: 2, webhookDone: true, slackDone: false },
    ]);
    await noteDelivery(ledger.db, { alertId, webhook: true, slack: true, done: true });
    await sql`UPDATE vault_alerts SET next_try_at = now()`.execute(ledger.db);
    expect(await claimAlerts(ledger.db, 5)).toEqual([]);
    const unknown = {
      ...alert,
      onceKey: 'unknown:1',
      kind: 'unknown_or_expired_key',
      keyId: 'no-such-key',
    } as const;
    expect(await raiseAlert(ledger.db, unknown)).toBe(true);
    expect(await claimAlerts(ledger.db, 5)).toMatchObject([{ keyId: null }]);
  });
});
