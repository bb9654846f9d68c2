import assert from 'node:assert/strict';
import { sql } from 'kysely';
import { openDatabase, type Database, type Db } from '../../src/db/database.ts';
import { readDrift } from '../../src/db/vault-drift.ts';
import {
  insertVaultKey,
  readBudgets,
  type Budget,
  type KeyOrder,
} from '../../src/db/vault-keys.ts';
import {
  beginForward,
  finishForward,
  type BeginOrder,
  type Begun,
  type Effect,
  type FinishOrder,
} from '../../src/db/vault-ledger.ts';
import { migratedDatabase } from './engine.ts';
import { finishOf, keyOrder } from './vault-orders.ts';

export interface Ledger {
  readonly url: string;
  readonly db: Db;
  /** a new key with that much room, its id */
  key(capMinor: number, parts?: Partial<KeyOrder>): Promise<string>;
  begin(order: BeginOrder): Promise<Begun>;
  finish(order: BeginOrder, parts: Partial<FinishOrder>): Promise<Effect>;
  /** the one window of a key's one cap */
  budget(keyId: string): Promise<Budget>;
  /** another pool on the same database, as another process would have */
  pool(poolSize?: number): Database;
  close(): Promise<void>;
}

/** A migrated database with the vault's functions at hand; its own, or the one that is given. */
export async function startLedger(poolSize = 10, given?: string): Promise<Ledger> {
  const url = given ?? (await migratedDatabase());
  const open = (size = poolSize) =>
    openDatabase({ url, applicationName: 'vault test', poolSize: size, onError: () => {} });
  const pools = [open()];
  const db = pools[0]?.db;
  if (db === undefined) throw new Error('no pool');
  return {
    url,
    db,
    async key(capMinor, parts) {
      const order = keyOrder(capMinor, parts);
      await insertVaultKey(db, order);
      return order.keyId;
    },
    begin: (order) => beginForward(db, order),
    finish: (order, parts) => finishForward(db, finishOf(order.requestId, parts)),
    async budget(keyId) {
      const [budget, ...more] = await readBudgets(db, keyId);
      if (budget === undefined || more.length > 0) throw new Error('not one window');
      return budget;
    },
    pool(size) {
      const pool = open(size);
      pools.push(pool);
      return pool;
    },
    async close() {
      await Promise.all(pools.map((pool) => pool.close()));
    },
  };
}

/** Where the sums of a key's windows differ, or a cap does not hold; empty is what has to be. */
async function problemsOf(db: Db): Promise<readonly string[]> {
  const { differing } = await readDrift(db);
  const { rows } = await sql<{ key_id: string }>`
    SELECT key_id FROM vault_windows WHERE used_minor > cap_minor + beyond_minor`.execute(db);
  return [
    ...differing.map((row) => `drift: ${JSON.stringify(row)}`),
    ...rows.map((row) => `above its cap: ${row.key_id}`),
  ];
}

/** Fails when a sum differs or a cap does not hold. */
export async function assertLedger(db: Db): Promise<void> {
  assert.deepEqual(await problemsOf(db), []);
}

/** Makes everything about a key's reservations look as if it had happened that long ago. */
export async function ageReservations(db: Db, keyId: string, interval: string): Promise<void> {
  await sql`
    UPDATE vault_reservations SET last_forward_at = last_forward_at - ${interval}::interval,
      absent_since = absent_since - ${interval}::interval, next_look_at = next_look_at - ${interval}::interval
    WHERE key_id = ${keyId}`.execute(db);
}
