import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { beginForward, finishForward, type BeginOrder } from '../../src/db/vault-ledger.ts';
import { readDrift } from '../../src/db/vault-drift.ts';
import { raiseCap, revokeVaultKey } from '../../src/db/vault-keys.ts';
import { refusedBy } from '../support/engine.ts';
import { assertLedger, startLedger, type Ledger } from '../support/vault-ledger.ts';
import {
  confirmOf,
  createOf,
  DECLINED,
  finishOf,
  LOST,
  SUCCEEDED,
} from '../support/vault-orders.ts';

let ledger: Ledger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.close());
// Whatever a test did: the count, the ledger, the reservations and the audit agree, and no cap is passed.
afterEach(() => assertLedger(ledger.db));

const by = { operator: 'olga', reason: 'agreed by phone' };

/** An intent that was created under the key, with its name in the books. */
async function created(keyId: string, name: string, parts: Partial<BeginOrder> = {}) {
  const order = createOf(keyId, `create-${name}`, parts);
  await ledger.begin(order);
  await ledger.finish(order, { objectId: `pi_${name}` });
  return `pi_${name}`;
}

describe('a reservation', () => {
  it('P1: lets exactly 10 of 20 parallel sums of 10 into a cap of 100', async () => {
    const keyId = await ledger.key(100);
    const begun = await Promise.all(
      Array.from({ length: 20 }, (_, i) => ledger.begin(createOf(keyId, `p1-${i}`))),
    );
    expect(begun.filter(({ decision }) => decision === 'forward')).toHaveLength(10);
    expect(begun.filter(({ decision }) => decision === 'spend_cap_exceeded')).toHaveLength(10);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 100, spentMinor: 0 });
  });

  it('P1, I5: lets exactly 50 of 1,000 parallel reservations from two pools into room for 50', async () => {
    const keyId = await ledger.key(50 * 15);
    const dbs = [ledger.db, ledger.pool(10).db];
    const begun = await Promise.all(
      Array.from({ length: 1_000 }, async (_, i) => {
        const db = dbs[i % 2];
        if (db === undefined) throw new Error('no pool');
        return beginForward(db, createOf(keyId, `many-${i}`, { amountMinor: 15 }));
      }),
    );
    expect(begun.filter(({ decision }) => decision === 'forward')).toHaveLength(50);
    expect(begun.filter(({ decision }) => decision === 'spend_cap_exceeded')).toHaveLength(950);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 750, spentMinor: 0 });
  });

  it('takes the room that another one took between its glance and its own update for taken', async () => {
    const keyId = await ledger.key(10);
    await ledger.begin(createOf(keyId, 'opens-the-window', { amountMinor: 1 }));
    // Both have seen 9 free: the first holds the row, the second waits for it.
    const first = ledger.pool(1);
    const held = Promise.withResolvers<void>();
    const firstDone = first.db.transaction().execute(async (trx) => {
      await beginForward(trx, createOf(keyId, 'first', { amountMinor: 9 }));
      held.resolve();
      await untilOneWaits();
    });
    await held.promise;
    const second = await ledger.begin(createOf(keyId, 'second', { amountMinor: 9 }));
    await firstDone;
    expect(second).toMatchObject({ decision: 'spend_cap_exceeded', usedMinor: 10, capMinor: 10 });
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 10 });
  });

  it('P4: is made once for the same key three times, one after the other and at once', async () => {
    const keyId = await ledger.key(30);
    const orders = Array.from({ length: 3 }, () => createOf(keyId, 'again'));
    const begun = [
      ...(await Promise.all(orders.slice(0, 2).map((order) => ledger.begin(order)))),
      await ledger.begin(createOf(keyId, 'again')),
    ];
    expect(begun.map(({ decision }) => decision)).toEqual(['forward', 'forward', 'forward']);
    expect(new Set(begun.map(({ reservationId }) => reservationId)).size).toBe(1);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 10 });
  });

  it('is refused for the same key with another sum, and nothing more is reserved', async () => {
    const keyId = await ledger.key(100);
    await ledger.begin(createOf(keyId, 'bound'));
    const other = await ledger.begin(createOf(keyId, 'bound', { amountMinor: 11 }));
    expect(other.decision).toBe('idempotency_key_reused');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 10 });
  });

  it('is refused for a key that was first sent 23 hours ago', async () => {
    const keyId = await ledger.key(100);
    await ledger.begin(createOf(keyId, 'old'));
    await sql`UPDATE vault_sends SET first_forwarded_at = first_forwarded_at - interval '23 hours 1 second'
      WHERE key_id = ${keyId}`.execute(ledger.db);
    expect((await ledger.begin(createOf(keyId, 'old'))).decision).toBe('idempotency_key_too_old');
  });

  it('V7: is refused under a key of another period, and under one that is expired, revoked or closed', async () => {
    const september = { capBasis: 'billing_period', namespace: 'base', period: '2031-09' } as const;
    const keyId = await ledger.key(100, september);
    const inPeriod = (name: string, period: string) =>
      ledger.begin(createOf(keyId, name, { namespace: 'base', period }));
    expect((await inPeriod('next', '2031-10')).decision).toBe('period_mismatch');
    expect((await inPeriod('own', '2031-09')).decision).toBe('forward');
    await sql`UPDATE vault_keys SET open_until = now() WHERE key_id = ${keyId}`.execute(ledger.db);
    expect((await inPeriod('closed', '2031-09')).decision).toBe('vault_key_closed');
    const past = await ledger.key(100, { expiresAt: new Date(Date.now() - 1) });
    expect((await ledger.begin(createOf(past, 'expired'))).decision).toBe('vault_key_expired');
    await revokeVaultKey(ledger.db, { keyId, ...by });
    expect((await inPeriod('revoked', '2031-09')).decision).toBe('vault_key_revoked');
  });

  it('is refused in a currency without a cap, and when another account has the key', async () => {
    const keyId = await ledger.key(100);
    const euro = await ledger.begin(createOf(keyId, 'euro', { currency: 'eur' }));
    expect(euro.decision).toBe('currency_not_capped');
    const elsewhere = await ledger.begin(createOf(keyId, 'else', { account: 'acct_other' }));
    expect(elsewhere.decision).toBe('vault_key_of_another_account');
    const live = await ledger.begin(createOf(keyId, 'live', { liveMode: true }));
    expect(live.decision).toBe('vault_key_of_another_account');
  });
});

describe('an answer', () => {
  it('P3: of a decline gives the sum back, and of a lost reply keeps it', async () => {
    const keyId = await ledger.key(100);
    const declined = createOf(keyId, 'declined');
    const lost = createOf(keyId, 'lost');
    await ledger.begin(declined);
    await ledger.begin(lost);
    expect(await ledger.finish(declined, DECLINED)).toBe('released');
    expect(await ledger.finish(lost, LOST)).toBe('held');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 10, spentMinor: 0 });
  });

  it('V4: counts once when it comes twice, by itself, by two at once and by a replay', async () => {
    const keyId = await ledger.key(100);
    const pi = await created(keyId, 'v4');
    const confirm = confirmOf(keyId, pi, 'confirm-v4');
    await ledger.begin(confirm);
    const settle = () => finishForward(ledger.db, finishOf(confirm.requestId, SUCCEEDED));
    expect(await Promise.all([settle(), settle(), settle()])).toEqual(['spent', 'spent', 'spent']);
    expect(await settle()).toBe('spent');
    const replay = confirmOf(keyId, pi, 'confirm-v4');
    await ledger.begin(replay);
    expect(await ledger.finish(replay, { ...SUCCEEDED, replayed: true })).toBe('spent');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 10 });
    const { windows } = await readDrift(ledger.db);
    expect(windows.find((one) => one.keyId === keyId)).toMatchObject({ settledMinor: 10 });
  });

  it('of a confirm settles what its create reserved: no second sum', async () => {
    const keyId = await ledger.key(10);
    const pi = await created(keyId, 'one');
    const confirm = confirmOf(keyId, pi, 'confirm-one');
    expect(await ledger.begin(confirm)).toMatchObject({ decision: 'forward', amountMinor: 10 });
    expect(await ledger.finish(confirm, SUCCEEDED)).toBe('spent');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 10 });
  });

  it('that declines lets the next confirm reserve again, or be refused when the room is gone', async () => {
    const keyId = await ledger.key(10);
    const pi = await created(keyId, 'two');
    const first = confirmOf(keyId, pi, 'confirm-two-1');
    await ledger.begin(first);
    expect(await ledger.finish(first, DECLINED)).toBe('released');
    await ledger.begin(createOf(keyId, 'took-the-room'));
    const second = confirmOf(keyId, pi, 'confirm-two-2');
    expect((await ledger.begin(second)).decision).toBe('spend_cap_exceeded');
    await raiseCap(ledger.db, { keyId, currency: 'usd', capMinor: 20, ...by });
    // The same key again, as a resume sends it.
    const resumed = confirmOf(keyId, pi, 'confirm-two-2');
    expect((await ledger.begin(resumed)).decision).toBe('forward');
    expect(await ledger.finish(resumed, SUCCEEDED)).toBe('spent');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 10, spentMinor: 10 });
  });

  it('that declines gives nothing back while another send of the intent is out', async () => {
    const keyId = await ledger.key(100);
    const pi = await created(keyId, 'open');
    const [first, second] = [confirmOf(keyId, pi, 'open-1'), confirmOf(keyId, pi, 'open-2')];
    await ledger.begin(first);
    await ledger.begin(second);
    expect(await ledger.finish(first, DECLINED)).toBe('held');
    expect(await ledger.finish(second, SUCCEEDED)).toBe('spent');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 10 });
  });

  it('that declines gives back once when the two confirms of an intent are both declined at once', async () => {
    const keyId = await ledger.key(100);
    const pi = await created(keyId, 'both');
    const confirms = [confirmOf(keyId, pi, 'both-1'), confirmOf(keyId, pi, 'both-2')];
    await Promise.all(confirms.map((order) => ledger.begin(order)));
    const effects = await Promise.all(confirms.map((order) => ledger.finish(order, DECLINED)));
    expect(effects.toSorted()).toEqual(['held', 'released']);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 0 });
  });

  it('of success is the truth after a release, above a cap that is full by then', async () => {
    const keyId = await ledger.key(10);
    const pi = await created(keyId, 'late');
    const first = confirmOf(keyId, pi, 'late-1');
    await ledger.begin(first);
    await ledger.finish(first, DECLINED);
    await ledger.begin(createOf(keyId, 'in-between'));
    const read = createOf(keyId, 'none', {
      kind: 'read',
      method: 'GET',
      idempotencyKey: null,
      objectId: pi,
    });
    await ledger.begin(read);
    expect(await ledger.finish(read, SUCCEEDED)).toBe('spent');
    expect(await ledger.budget(keyId)).toMatchObject({
      capMinor: 10,
      reservedMinor: 10,
      spentMinor: 10,
    });
    expect((await ledger.begin(createOf(keyId, 'after'))).decision).toBe('spend_cap_exceeded');
    // Raised, the room counts from what is really used.
    await raiseCap(ledger.db, { keyId, currency: 'usd', capMinor: 29, ...by });
    expect((await ledger.begin(createOf(keyId, 'after'))).decision).toBe('spend_cap_exceeded');
    await raiseCap(ledger.db, { keyId, currency: 'usd', capMinor: 30, ...by });
    expect((await ledger.begin(createOf(keyId, 'after'))).decision).toBe('forward');
  });
});

describe('a cap per day', () => {
  it('sets aside again in the day of the next confirm what was given back the day before', async () => {
    const keyId = await ledger.key(10, { capBasis: 'day' });
    const pi = await created(keyId, 'midnight');
    const first = confirmOf(keyId, pi, 'midnight-1');
    await ledger.begin(first);
    await ledger.finish(first, DECLINED);
    await yesterday(keyId);
    const second = confirmOf(keyId, pi, 'midnight-2');
    expect((await ledger.begin(second)).decision).toBe('forward');
    expect(await ledger.finish(second, SUCCEEDED)).toBe('spent');
    expect(await usedByWindow(keyId)).toEqual([0, 10]);
  });

  it('leaves the sum of a lost reply with its day, and gives the next day its own room', async () => {
    const keyId = await ledger.key(10, { capBasis: 'day' });
    const lost = createOf(keyId, 'lost-at-night');
    await ledger.begin(lost);
    await yesterday(keyId);
    expect((await ledger.begin(createOf(keyId, 'morning'))).decision).toBe('forward');
    expect(await ledger.finish(lost, SUCCEEDED)).toBe('spent');
    expect(await usedByWindow(keyId)).toEqual([10, 10]);
  });
});

describe('the database', () => {
  it('refuses what the code could get wrong: beyond the cap, unspent, deleted, settled twice, lowered', async () => {
    const keyId = await ledger.key(10);
    const pi = await created(keyId, 'guard');
    const confirm = confirmOf(keyId, pi, 'confirm-guard');
    await ledger.begin(confirm);
    await ledger.finish(confirm, SUCCEEDED);
    const refused = (statement: string) =>
      refusedBy(sql.raw(statement.replaceAll('$key', `'${keyId}'`)).execute(ledger.db));
    expect(await refused('UPDATE vault_windows SET used_minor = 11 WHERE key_id = $key')).toBe(
      'vault_cap_holds',
    );
    expect(
      await refused(`UPDATE vault_reservations SET state = 'released' WHERE key_id = $key`),
    ).toBe('spent_is_absorbing');
    expect(
      await refused('UPDATE vault_reservations SET amount_minor = 1 WHERE key_id = $key'),
    ).toBe('reservation_keeps_its_sum');
    expect(
      await refused(`INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
      SELECT key_id, currency, "window", reservation_id, 'settle', 10, 'x' FROM vault_reservations WHERE key_id = $key`),
    ).toBe('settled_once');
    expect(await refused('UPDATE vault_caps SET cap_minor = 9 WHERE key_id = $key')).toBe(
      'vault_cap_only_rises',
    );
    expect(await refused(`UPDATE vault_keys SET account = 'acct_x' WHERE key_id = $key`)).toBe(
      'vault_key_keeps_its_purpose',
    );
    await expect(sql`DELETE FROM vault_reservations`.execute(ledger.db)).rejects.toThrow(
      'append-only',
    );
    await expect(sql`UPDATE vault_requests SET path = '/x'`.execute(ledger.db)).rejects.toThrow(
      'append-only',
    );
  });
});

/** Moves today's windows of a key, and what is set aside in them, to an earlier day. */
async function yesterday(keyId: string): Promise<void> {
  await ledger.db.transaction().execute(async (trx) => {
    await sql`SET LOCAL session_replication_role = replica`.execute(trx);
    for (const table of ['vault_windows', 'vault_reservations', 'vault_ledger'])
      await sql`UPDATE ${sql.table(table)} SET "window" = '2000-01-01' WHERE key_id = ${keyId}`.execute(
        trx,
      );
  });
}

async function usedByWindow(keyId: string): Promise<number[]> {
  const { rows } = await sql<{ used: number }>`
    SELECT used_minor AS used FROM vault_windows WHERE key_id = ${keyId} ORDER BY "window"`.execute(
    ledger.db,
  );
  return rows.map(({ used }) => used);
}

/** Until some session of this test waits for a lock. */
async function untilOneWaits(): Promise<void> {
  await expect
    .poll(async () => {
      const { rows } = await sql<{ n: number }>`
        SELECT count(*) AS n FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`.execute(ledger.db);
      return rows[0]?.n;
    })
    .toBe(1);
}
