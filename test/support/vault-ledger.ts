import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { openDatabase, type Database } from '../../src/db/database.ts';
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
import type { Db } from '../../src/db/database.ts';
import { migratedDatabase } from './engine.ts';

export const ACCOUNT = 'acct_vault';

/** A key's parts with room for `capMinor` usd; every call gives another key. */
export function keyOrder(capMinor: number, parts: Partial<KeyOrder> = {}): KeyOrder {
  return {
    keyId: randomBytes(8).toString('hex'),
    secretHash: randomBytes(32),
    account: ACCOUNT,
    liveMode: false,
    capBasis: 'total',
    namespace: null,
    period: null,
    allowedEndpoints: ['POST /v1/payment_intents'],
    expiresAt: new Date(Date.now() + 3_600_000),
    caps: [{ currency: 'usd', capMinor, expectedMinor: null }],
    actor: 'test',
    ...parts,
  };
}

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();

/** A create of 10 usd under this idempotency key; the bytes follow from path, sum and currency. */
export function createOf(
  keyId: string,
  idempotencyKey: string,
  parts: Partial<BeginOrder> = {},
): BeginOrder {
  const { path = '/v1/payment_intents', amountMinor = 10, currency = 'usd' } = parts;
  return {
    requestId: randomUUID(),
    keyId,
    account: ACCOUNT,
    liveMode: false,
    kind: 'create',
    method: 'POST',
    path,
    idempotencyKey,
    attemptId: null,
    requestHash: hashOf(`${path} ${amountMinor} ${currency}`),
    amountMinor,
    currency,
    objectId: null,
    stripeCustomer: 'cus_1',
    marks: hashOf(idempotencyKey),
    namespace: null,
    period: null,
    customerId: null,
    ...parts,
  };
}

/** A confirm of this intent under its own idempotency key. */
export function confirmOf(keyId: string, objectId: string, idempotencyKey: string): BeginOrder {
  const path = `/v1/payment_intents/${objectId}/confirm`;
  return createOf(keyId, idempotencyKey, {
    kind: 'confirm',
    path,
    requestHash: hashOf(path),
    amountMinor: null,
    currency: null,
    objectId,
  });
}

/** What a lost reply means; the rest by parts. */
export function finishOf(requestId: string, parts: Partial<FinishOrder> = {}): FinishOrder {
  return {
    requestId,
    status: 200,
    error: null,
    stripeRequestId: 'req_1',
    replayed: false,
    durationMs: 1,
    resolves: 'key',
    to: 'held',
    reason: 'requires_confirmation',
    objectId: null,
    ...parts,
  };
}

/** No answer came: nobody knows. */
export const LOST = {
  status: null,
  error: 'socket hang up',
  resolves: 'nothing',
  to: 'held',
  reason: 'no_answer',
} as const satisfies Partial<FinishOrder>;

/** Stripe's definite no. */
export const DECLINED = {
  status: 402,
  resolves: 'key',
  to: 'released',
  reason: 'card_declined',
} as const satisfies Partial<FinishOrder>;

export const SUCCEEDED = {
  resolves: 'key',
  to: 'spent',
  reason: 'succeeded',
} as const satisfies Partial<FinishOrder>;

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

/** A migrated database with the vault's functions at hand. */
export async function startLedger(poolSize = 10): Promise<Ledger> {
  const url = await migratedDatabase();
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
