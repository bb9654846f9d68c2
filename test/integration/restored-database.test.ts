import { readFileSync } from 'node:fs';
import { sql, type Kysely } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DB } from '../../src/db/schema.ts';
import {
  attend,
  chargesOf,
  postsOf,
  readSlot,
  runRef,
  slotRef,
  startEngine,
  type Engine,
  type SlotRow,
} from '../support/engine.ts';

/** The statements of the runbook "Restore from a backup", as an operator copies them. */
const [WRITE_DOWN = '', GIVE_INTENT = ''] = runbook();

function runbook(): string[] {
  const text = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
  const section = /### Restore from a backup\n([\s\S]*?)\n### /.exec(text)?.[1] ?? '';
  return [...section.matchAll(/```sql\n([\s\S]*?)```/g)].map((match) => match[1] ?? '');
}

/** Past this Stripe has forgotten every key, so that no repeat is harmless any more. */
const KEYS_FORGOTTEN_MS = 25 * 3_600_000;

const run = runRef('2026-11');
const slot = slotRef('cust_1', run);
let engine: Engine;
let charged: SlotRow;

beforeEach(async () => {
  engine = await startEngine();
  await engine.plan([{ id: 'cust_1' }], run);
  await attend(engine.deps, slot);
  charged = await readSlot(engine.db, slot);
  engine.simulator.advanceClock(KEYS_FORGOTTEN_MS);
});
afterEach(() => engine.close());

/** What a rolled-back database looks like. The triggers are off, as while a dump is loaded. */
async function rollBack(db: Kysely<DB>, to: 'unclaimed' | 'claimed'): Promise<void> {
  await db.connection().execute(async (connection) => {
    await sql`SET session_replication_role = replica`.execute(connection);
    await sql`DELETE FROM charge_attempt_answers`.execute(connection);
    await sql`DELETE FROM charge_attempts`.execute(connection);
    await sql`DELETE FROM audit_log WHERE action LIKE 'slot.%'`.execute(connection);
    if (to === 'unclaimed') {
      await sql`DELETE FROM charge_generations`.execute(connection);
      await sql`DELETE FROM billing_charges`.execute(connection);
    } else {
      await sql`UPDATE charge_generations SET first_sent_at = NULL, outcome = NULL, finished_at = NULL,
        charge_id = NULL, stripe_request_id = NULL`.execute(connection);
      await sql`UPDATE billing_charges SET state = 'claimed', payment_intent_id = NULL, charge_id = NULL,
        sent_at = NULL, settled_at = NULL`.execute(connection);
    }
    await sql`SET session_replication_role = origin`.execute(connection);
  });
}

async function operatorRuns(statements: string): Promise<void> {
  const filled = statements
    .replaceAll('pi_…', charged.payment_intent_id ?? '')
    .replaceAll('ch_…', charged.charge_id ?? '');
  expect(filled).not.toContain('…');
  await engine.db.connection().execute(async (connection) => {
    for (const statement of filled.split(';').filter((text) => text.trim() !== '')) {
      await sql.raw(statement).execute(connection);
    }
  });
}

describe('after a restore from before the charge, when Stripe has forgotten the keys', () => {
  it('sends nothing for a slot that the runbook has written down as charged', async () => {
    await rollBack(engine.db, 'unclaimed');
    await operatorRuns(WRITE_DOWN);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(postsOf(engine.simulator, 'create')).toHaveLength(1);
    expect(postsOf(engine.simulator, 'confirm')).toHaveLength(1);
    const logged = await engine.db
      .selectFrom('audit_log')
      .select(['actor', 'amount_minor', 'currency'])
      .where('action', '=', 'slot.charged')
      .execute();
    expect(logged).toEqual([{ actor: 'alice', amount_minor: 1500, currency: 'usd' }]);
  });

  it('finds the first charge for a claimed slot that the runbook has given its PaymentIntent', async () => {
    await rollBack(engine.db, 'claimed');
    await operatorRuns(GIVE_INTENT);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect((await readSlot(engine.db, slot)).charge_id).toBe(charged.charge_id);
    expect(postsOf(engine.simulator, 'create')).toHaveLength(1);
    expect(chargesOf(engine.simulator, 'cust_1')).toBe(1);
  });

  it('charges again when nobody follows the runbook: why a restore is not for the engine alone', async () => {
    await rollBack(engine.db, 'unclaimed');
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, 'cust_1')).toBe(2);
  });
});
