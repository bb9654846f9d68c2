import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { moveAndClose, planOpened } from '../../src/activities/vault-run.ts';
import { registerAudit } from '../../src/cli/commands/audit.ts';
import { registerDuplicates } from '../../src/cli/commands/duplicates.ts';
import { registerResolve } from '../../src/cli/commands/resolve.ts';
import { registerWorker } from '../../src/cli/commands/worker.ts';
import { checkVault } from '../../src/cli/vault-check.ts';
import { loadConfig } from '../../src/config.ts';
import { noteUnknown } from '../../src/db/reviews.ts';
import {
  ageSends,
  attend,
  insertCustomers,
  readSlot,
  runRef,
  setFaults,
  slotRef,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { runInProcess, type Commanded } from '../support/in-process.ts';
import {
  ADMIN_TOKEN,
  RUN_TOKEN,
  startEngineVault,
  type EngineVault,
} from '../support/vault-engine.ts';

/** The month that the simulator's clock is in. */
const run = runRef(new Date().toISOString().slice(0, 7));
const PEOPLE = ['a', 'b', 'c', 'lost'];

let engine: Engine;
let behind: EngineVault;

beforeAll(async () => {
  engine = await startEngine();
  behind = await startEngineVault(engine);
  await insertCustomers(
    engine.db,
    PEOPLE.map((id) => ({ id })),
  );
  const deps = behind.depsOf(run);
  await planOpened(deps, run, 'test');
  for (const id of PEOPLE.slice(0, 3)) await attend(deps, slotRef(id, run));
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(async () => {
  await behind.close();
  await engine.close();
});

/** What an operator's shell has, and no Stripe key. */
const environment = (): Record<string, string> => ({
  DATABASE_URL: engine.databaseUrl,
  VAULT_URL: behind.vault.proxyUrl,
  VAULT_ADMIN_URL: behind.vault.adminUrl,
  VAULT_RUN_TOKEN: RUN_TOKEN,
});

type Register = Parameters<typeof runInProcess>[0];
const command = (
  register: Register,
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<Commanded> => runInProcess(register, [...args, '--json'], { ...environment(), ...more });

const alertKinds = async (): Promise<string[]> => {
  const rows = await engine.db.selectFrom('vault_alerts').select('kind').execute();
  return rows.map(({ kind }) => kind);
};

describe('a command beside a vault, without a Stripe key', () => {
  it('resolve asks Stripe with the key of the run', async () => {
    const slot = slotRef('lost', run);
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'actThenDrop',
      rate: 1,
    });
    await attend(behind.depsOf(run), slot, 1);
    engine.simulator.setFaults(undefined);
    await ageSends(engine.db, slot, '80 hours');
    const unknown = { generation: 1, reason: 'look_up_failed', reviewAfterHours: 72 };
    await noteUnknown(engine.db, slot, unknown);
    const { payment_intent_id: intent } = await readSlot(engine.db, slot);
    const { entries } = engine.simulator.ledger();
    const charge = entries.find(({ paymentIntent }) => paymentIntent === intent)?.charges[0];

    const args = ['resolve', run.period, 'lost', '--evidence', 'seen in the dashboard'];
    const absent = await command(registerResolve, [...args, '--as', 'absent', '--no-rerun']);
    expect([absent.code, absent.stderr]).toEqual([1, expect.stringContaining('succeeded')]);
    const charged = [...args, '--as', 'charged', '--charge', charge?.id ?? ''];
    expect((await command(registerResolve, charged)).json()).toMatchObject({ kind: 'decided' });
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'charged' });
  });

  it('audit reads the list of a run that is over through the vault, and raises no alert by it', async () => {
    const audit = ['audit', run.period, '--without-temporal'];
    await moveAndClose(behind.depsOf(run), run, 'completed');
    const before = await alertKinds();
    const done = await command(registerAudit, audit);
    expect([done.code, done.stderr]).toEqual([0, '']);
    expect(done.json()).toMatchObject({ verdict: 'pass', doubleCharged: 0, lost: 0 });
    expect(done.stdout).toContain(`PaymentIntent list of ${new URL(behind.vault.proxyUrl).host}`);
    expect(await alertKinds()).toEqual(before);
  });

  it('duplicates says that it needs a vault key of its own, and takes one', async () => {
    const refused = await command(registerDuplicates, ['duplicates']);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(
      /whole account.*vault keys create.*STRIPE_API_KEY=vk_….*STRIPE_API_BASE/,
    );
    const made = await behind.admin('POST', '/vault/keys', {
      vendor: 'stripe',
      max_amount: 1,
      currency: 'usd',
      allowed_endpoints: ['GET /v1/charges', 'GET /v1/charges/:id'],
    });
    const { key } = z.object({ key: z.string() }).parse(made);
    const own = { STRIPE_API_KEY: key, STRIPE_API_BASE: behind.vault.proxyUrl };
    const found = await command(registerDuplicates, ['duplicates'], own);
    expect(found.code).toBe(0);
    expect(found.json()).toMatchObject({ charges: PEOPLE.length, certain: 0, likely: 0 });
  });

  it('is told what is wrong when the token is another, or the vault is not there', async () => {
    const audit = ['audit', run.period, '--without-temporal'];
    const wrong = `vrt_${'9'.repeat(64)}`;
    const refused = await command(registerAudit, audit, { VAULT_RUN_TOKEN: wrong });
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('does not take this VAULT_RUN_TOKEN'),
    ]);
    expect(refused.stderr).not.toContain(wrong);
    const away = await command(registerAudit, audit, { VAULT_ADMIN_URL: 'http://127.0.0.1:9' });
    expect([away.code, away.stderr]).toEqual([
      5,
      expect.stringMatching(/cannot be reached: .*Check VAULT_URL/),
    ]);
  });

  it('a worker with the token that raises caps is refused before anything is connected', async () => {
    const refused = runInProcess(registerWorker, ['worker'], {
      ...environment(),
      VAULT_ADMIN_TOKEN: ADMIN_TOKEN,
      TEMPORAL_ADDRESS: '127.0.0.1:1',
    });
    expect(await refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('VAULT_ADMIN_TOKEN: refused for a worker'),
    });
  });

  it('doctor checks token and mode, and opens nothing', async () => {
    const check = async (more: Readonly<Record<string, string>>) =>
      (await checkVault(loadConfig({ ...environment(), ...more })))[0];
    expect(await check({})).toMatchObject({
      state: 'ok',
      found: `${engine.deps.account}, test mode`,
    });
    expect(await check({ CHARGEONCE_MODE: 'live' })).toMatchObject({
      state: 'fail',
      found: 'it has a test key, and CHARGEONCE_MODE is live',
    });
    expect(await check({ VAULT_RUN_TOKEN: `vrt_${'9'.repeat(64)}` })).toMatchObject({
      state: 'fail',
      mend: 'set VAULT_RUN_TOKEN to what the vault has',
    });
  });
});
