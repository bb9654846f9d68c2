import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate } from '../../src/db/migrate.ts';
import { insertVaultKey } from '../../src/db/vault-keys.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';
import { assertLedger, startLedger, type Ledger } from '../support/vault-ledger.ts';
import { confirmOf, createOf, keyOrder, SUCCEEDED } from '../support/vault-orders.ts';

const SPENDER = fileURLToPath(new URL('../support/vault-spender.ts', import.meta.url));

let postgres: TestPostgres;
let ledger: Ledger;
beforeAll(async () => {
  postgres = await startPostgres();
  const { url } = await postgres.createDatabase();
  await migrate(url);
  ledger = await startLedger(4, url);
});
afterAll(() => ledger.close());

describe('a crash', () => {
  it('V1, V5: of PostgreSQL between the two commits leaves the hold, and nothing is let out while it is away', async () => {
    const keyId = await ledger.key(20);
    const create = createOf(keyId, 'crash');
    await ledger.begin(create);
    await ledger.finish(create, { objectId: 'pi_crash' });
    const confirm = confirmOf(keyId, 'pi_crash', 'crash-confirm');
    await ledger.begin(confirm);
    await postgres.immediateStop();
    const ends = await Promise.allSettled([
      ledger.begin(createOf(keyId, 'while-away')),
      ledger.finish(confirm, SUCCEEDED),
    ]);
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await postgres.start();
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 10, spentMinor: 0 });
    // Whoever still has the answer brings it now.
    expect(await ledger.finish(confirm, SUCCEEDED)).toBe('spent');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 10 });
    await assertLedger(ledger.db);
  });

  it('V6, I5: of two processes that spend under one key, killed and started again, never passes the cap or loses a sum', async () => {
    const key = keyOrder(4_000);
    await insertVaultKey(ledger.db, key);
    const spenders = ['a1', 'a2'].map((name) => spender(key.keyId, name));
    await Promise.all(spenders.map((one) => saidAtLeast(one, 30)));
    await Promise.all(spenders.map((one) => kill(one)));
    const after = await ledger.budget(key.keyId);
    await assertLedger(ledger.db);
    expect(after.spentMinor).toBeGreaterThan(0);
    // What was let out and has no answer stays set aside, whoever began it.
    expect(after.reservedMinor).toBeGreaterThan(0);
    const restarted = ['b1', 'b2'].map((name) => spender(key.keyId, name));
    await Promise.all(restarted.map((one) => said(one, 'spend_cap_exceeded')));
    await Promise.all(restarted.map((one) => kill(one)));
    const { reservedMinor, spentMinor } = await ledger.budget(key.keyId);
    // A decline that gives its sum back after the last refusal leaves room; more than that is never used.
    expect(reservedMinor + spentMinor).toBeLessThanOrEqual(4_000);
    expect(reservedMinor).toBeGreaterThanOrEqual(after.reservedMinor);
    expect(spentMinor).toBeGreaterThan(after.spentMinor);
    await assertLedger(ledger.db);
    const { rows } = await sql<{ forwarded: number; answered: number }>`
      SELECT count(*) FILTER (WHERE q.decision = 'forward') AS forwarded, count(a.request_id) AS answered
      FROM vault_requests q LEFT JOIN vault_answers a USING (request_id) WHERE q.key_id = ${key.keyId}`.execute(
      ledger.db,
    );
    expect(rows[0]?.forwarded).toBeGreaterThan(rows[0]?.answered ?? 0);
  });
});

function spender(keyId: string, name: string): ChildProcess {
  return spawn(process.execPath, [SPENDER, ledger.url, keyId, name], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function saidAtLeast(child: ChildProcess, lines: number): Promise<void> {
  let n = 0;
  for await (const _line of linesOf(child)) {
    n += 1;
    if (n >= lines) return;
  }
  throw new Error('the spender ended by itself');
}

async function said(child: ChildProcess, wanted: string): Promise<void> {
  for await (const line of linesOf(child)) if (line === wanted) return;
  throw new Error(`the spender never said ${wanted}`);
}

function linesOf(child: ChildProcess) {
  if (child.stdout === null) throw new Error('no output');
  return createInterface({ input: child.stdout });
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}
