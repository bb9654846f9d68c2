import { readFile } from 'node:fs/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { openDatabase, type Database } from '../../src/db/database.ts';
import { slotRef } from '../support/names.ts';
import { startEngine, type Engine } from '../support/engine.ts';
import { createForm, startTestVault, type TestVault } from '../support/vault.ts';

const SUFFIX = `_${process.pid}`;

let engine: Engine;
let vault: TestVault;
let worker: Database;

/** The database as another role, with the password of the page. */
function urlOf(role: string): string {
  const url = new URL(engine.databaseUrl);
  url.username = `${role}${SUFFIX}`;
  url.password = 'change me';
  return url.toString();
}

beforeAll(async () => {
  engine = await startEngine();
  const page = await readFile(new URL('../../docs/vault.md', import.meta.url), 'utf8');
  const block = /```sql\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
  // Roles belong to the whole server, and other databases of it are under test too.
  const script = block.replaceAll(/chargeonce_(?:vault|worker)\b/g, (role) => `${role}${SUFFIX}`);
  await sql.raw(script).execute(engine.db);
  vault = await startTestVault({
    databaseUrl: urlOf('chargeonce_vault'),
    stripeUrl: engine.simulator.url,
  });
  worker = openDatabase({
    url: urlOf('chargeonce_worker'),
    applicationName: 'worker of a test',
    onError: () => {},
  });
});

afterAll(async () => {
  await worker.close();
  await vault.vault.shutdown();
  for (const role of ['chargeonce_vault', 'chargeonce_worker']) {
    const name = sql.id(`${role}${SUFFIX}`);
    await sql`DROP OWNED BY ${name}`.execute(engine.db);
    await sql`DROP ROLE ${name}`.execute(engine.db);
  }
  await engine.close();
});

describe('the roles of docs/vault.md', () => {
  it('let the vault do all of its work', async () => {
    const { id, key } = await vault.makeKey({ max_amount: 2_000 });
    const create = () => vault.post('/v1/payment_intents', createForm(1_500), { key });
    const created = await create();
    expect(created.status).toBe(200);
    const confirm = `/v1/payment_intents/${created.body.id}/confirm`;
    expect((await vault.post(confirm, { off_session: 'true' }, { key })).status).toBe(200);
    expect((await create()).status).toBe(402);
    const [swept, drift, shown] = [
      await vault.admin('POST', '/vault/sweep'),
      await vault.admin('GET', '/vault/drift'),
      await vault.admin('GET', `/vault/keys/${id}`),
    ];
    expect([swept.status, drift.body.differing]).toEqual([200, []]);
    expect(shown.body.caps).toMatchObject([{ spent: 1_500, reserved: 0 }]);
    await expect
      .poll(() => vault.log.filter(({ fields }) => fields['alert'] !== undefined).length)
      .toBe(1);
  });

  it('let a worker claim, and neither read nor write what the vault counts', async () => {
    const run = await engine.plan([{ id: 'granted' }]);
    const slot = { ...slotRef('granted'), ...run };
    const deps = engine.with({ db: worker.db });
    expect(await claimSlot(deps, slot)).toMatchObject({ kind: 'claimed' });
    const tries = [
      sql`UPDATE vault_caps SET cap_minor = cap_minor + 1`,
      sql`UPDATE vault_windows SET used_minor = 0`,
      sql`UPDATE vault_keys SET revoked_at = NULL`,
      sql`INSERT INTO vault_caps (key_id, currency, cap_minor) SELECT key_id, 'eur', 1 FROM vault_keys`,
      sql`SELECT secret_hash FROM vault_keys`,
      sql`SELECT vault_raise(key_id, 'usd', 999999) FROM (SELECT 'x' AS key_id) AS any_key`,
      sql`TRUNCATE vault_requests`,
    ];
    for (const attempt of tries) {
      const error: unknown = await attempt.execute(worker.db).catch((caught: unknown) => caught);
      // insufficient_privilege
      expect(error).toMatchObject({ code: '42501' });
    }
  });
});
