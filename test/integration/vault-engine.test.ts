import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { withFailures } from '../../src/activities/errors.ts';
import { look, reconcile } from '../../src/activities/reconcile.ts';
import { moveAndClose, planOpened } from '../../src/activities/vault-run.ts';
import { unblockSlots } from '../../src/db/blocked.ts';
import { openDatabase } from '../../src/db/database.ts';
import { planRun } from '../../src/db/runs.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import { openProvider, reachVault, vaultAccount } from '../../src/provider.ts';
import { Secret } from '../../src/secret.ts';
import { deriveRunKey } from '../../src/vault-key.ts';
import { startWorker } from '../../src/worker.ts';
import {
  attend,
  driveCharge,
  insertCustomers,
  migratedDatabase,
  postsOf,
  readSlot,
  runRef,
  setFaults,
  slotRef,
  startEngine,
  TEST_KEY,
  type Engine,
} from '../support/engine.ts';
import { assertInvariants } from '../support/invariants.ts';
import { RUN_TOKEN, startEngineVault, type EngineVault } from '../support/vault-engine.ts';

const PEOPLE = Array.from({ length: 10 }, (_, i) => `v${i}`);
const PRICE = 1_500;
const EXPECTED = PEOPLE.length * PRICE;

let engine: Engine;
let behind: EngineVault;

beforeAll(async () => {
  engine = await startEngine();
  await insertCustomers(
    engine.db,
    PEOPLE.map((id) => ({ id, amountMinor: PRICE })),
  );
  behind = await startEngineVault(engine);
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(async () => {
  await behind.close();
  await engine.close();
});

/** The same customers in a period of its own, so that tests do not meet. */
async function planned(period: string): Promise<RunRef> {
  const run = runRef(period);
  await planRun(engine.db, run, 'test');
  return run;
}

const keyOf = (run: RunRef) => deriveRunKey(RUN_TOKEN, 'test', run);
const capOfRun = (run: RunRef) => behind.admin('GET', `/vault/keys/${keyOf(run).keyId}`);

/** Successful charges of a run at the provider, by customer. */
function chargedIn({ period }: RunRef): Record<string, number> {
  const { groups } = engine.simulator.ledger();
  const ofRun = groups.filter((group) => group.period === period && group.succeeded > 0);
  return Object.fromEntries(ofRun.map(({ customer, succeeded }) => [customer, succeeded]));
}

/** The keys under which a customer's requests came to Stripe, in their order. */
async function keysAtStripe(run: RunRef, customer: string): Promise<readonly (string | null)[]> {
  const sent = await engine.db
    .selectFrom('charge_generations')
    .select('idempotency_key')
    .where('period', '=', run.period)
    .where('customer_id', '=', customer)
    .execute();
  const ours = new Set<string | null>(sent.map((one) => one.idempotency_key));
  return engine.simulator
    .requests()
    .map((request) => request.idempotencyKey)
    .filter((key) => key !== null && ours.has(key));
}

describe('a run through the vault', () => {
  it('charges everybody once, and what is spent of its cap is what was charged', async () => {
    const run = await planned('2026-01');
    await planOpened(behind.depsOf(run), run, 'test');
    const attended = PEOPLE.map((id) => attend(behind.depsOf(run), slotRef(id, run)));
    expect(new Set(await Promise.all(attended))).toEqual(new Set(['charged']));
    expect(chargedIn(run)).toEqual(Object.fromEntries(PEOPLE.map((id) => [id, 1])));
    expect(await capOfRun(run)).toMatchObject({
      caps: [{ currency: 'usd', cap: 16_500, expected: EXPECTED, reserved: 0, spent: EXPECTED }],
    });
    // Also: every request at Stripe is one of our attempts, under our key and with our bytes.
    const { databaseUrl, simulator } = engine;
    await assertInvariants({ databaseUrl, simulator, temporal: null, run, faultsFired: false });
  });

  it('P1: is stopped by its cap whatever asked for the money, and bills the blocked slot under its old keys after a raise', async () => {
    const run = await planned('2026-02');
    const deps = behind.depsOf(run);
    await planOpened(deps, run, 'test');
    // Somebody else spends with the run's key: the guard is not in the engine.
    const { apiKey, apiBase } = (await deps.vault?.credentialsOf(run)) ?? {
      apiKey: '',
      apiBase: '',
    };
    const stray = await fetch(`${apiBase}/v1/payment_intents`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'idempotency-key': 'stray-2026-02' },
      body: new URLSearchParams({
        amount: '3000',
        currency: 'usd',
        customer: 'cus_v0',
        'metadata[chargeonce_namespace]': run.namespace,
        'metadata[chargeonce_period]': run.period,
      }),
    });
    expect(stray.status).toBe(200);
    const states: string[] = [];
    for (const id of PEOPLE) states.push(await attend(deps, slotRef(id, run)));
    expect(states).toEqual([...PEOPLE.slice(1).map(() => 'charged'), 'blocked']);
    const last = slotRef('v9', run);
    expect(await readSlot(engine.db, last)).toMatchObject({ reason: 'spend_cap_exceeded' });
    expect(await keysAtStripe(run, 'v9')).toEqual([]);

    await behind.admin('PATCH', `/vault/keys/${keyOf(run).keyId}`, {
      currency: 'usd',
      max_amount: 18_000,
      reason: 'the stray intent is known',
      operator: 'alice',
    });
    const before = (await readSlot(engine.db, last)).idempotency_key;
    expect(await unblockSlots(engine.db, run)).toBe(1);
    // A worker that starts now finds a cap above the plan's, and that is no difference.
    expect(await attend(behind.freshDeps(run), last)).toBe('charged');
    const after = await readSlot(engine.db, last);
    expect([after.idempotency_key, after.generation]).toEqual([before, 1]);
    expect(chargedIn(run)).toEqual(Object.fromEntries(PEOPLE.map((id) => [id, 1])));
  });

  it('is closed with the run, and a late order opens it again on its next attempt', async () => {
    const run = await planned('2026-03');
    const deps = behind.depsOf(run);
    await planOpened(deps, run, 'test');
    expect(await attend(deps, slotRef('v0', run))).toBe('charged');
    await moveAndClose(deps, run, 'completed');
    const closed = await fetch(`${behind.vault.proxyUrl}/v1/payment_intents`, {
      method: 'POST',
      headers: { authorization: `Bearer ${keyOf(run).key}`, 'idempotency-key': 'late' },
      body: new URLSearchParams({ amount: '1', currency: 'usd' }),
    });
    expect(await closed.json()).toMatchObject({ error: { code: 'vault_key_closed' } });

    // Another process closed it: this one believes that it is open.
    const late = slotRef('v1', run);
    await claimSlot(deps, late);
    await deps.vault?.openRun(run);
    await behind.freshDeps(run).vault?.closeRun(run);
    const { result, failures } = await driveCharge(deps, late);
    expect(failures).toEqual(['ChargeNotExecuted']);
    expect(result?.result.outcome).toBe('charged');
    expect(await keysAtStripe(run, 'v1')).toHaveLength(2);
  });

  it('is gone on with while the run token is rotated: nobody is misconfigured by it', async () => {
    const run = await planned('2026-11');
    const deps = behind.depsOf(run);
    await planOpened(deps, run, 'test');
    // A worker with another token has opened it: what this process has is unknown to the vault.
    await engine.db
      .updateTable('vault_keys')
      .set({ secret_hash: Buffer.alloc(32, 1) })
      .where('key_id', '=', keyOf(run).keyId)
      .execute();
    // The vault takes the new secret after a moment, so that guessing is slow.
    await expect.poll(() => attend(deps, slotRef('v1', run))).toBe('charged');
    expect(chargedIn(run)).toEqual({ v1: 1 });
  });

  it('reads through the vault what became of a lost reply', async () => {
    const run = await planned('2026-04');
    const deps = behind.depsOf(run);
    const slot = slotRef('v0', run);
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'actThenDrop',
      rate: 1,
    });
    expect(await attend(deps, slot, 1)).toBe('indeterminate');
    engine.simulator.setFaults(undefined);
    const looked = await look(behind.freshDeps(run), slot);
    expect(looked).toMatchObject({ kind: 'settled', charge: { result: { outcome: 'charged' } } });
    const found = await reconcile(deps, { ...slot, generation: 1 });
    expect(found).toMatchObject({ kind: 'settled', charge: { result: { outcome: 'charged' } } });
    expect(postsOf(engine.simulator, 'confirm').at(-1)?.faultKind).toBe('actThenDrop');
    expect(chargedIn(run)).toEqual({ v0: 1 });
  });

  it('stops when its key is revoked: nothing leaves, and every other customer would hear the same', async () => {
    const run = await planned('2026-05');
    const deps = behind.depsOf(run);
    await planOpened(deps, run, 'test');
    const [slot, next] = [slotRef('v0', run), slotRef('v1', run)];
    for (const one of [slot, next]) await claimSlot(deps, one);
    await behind.admin('DELETE', `/vault/keys/${keyOf(run).keyId}`, {
      reason: 'leaked',
      operator: 'alice',
    });
    const stopped = { outcome: 'blocked', reason: 'vault_key_revoked', advice: 'mend_vault' };
    // This process has opened it before; the other asks and is told.
    expect((await driveCharge(deps, slot)).result?.result).toMatchObject(stopped);
    expect((await driveCharge(behind.freshDeps(run), next)).result?.result).toMatchObject(stopped);
    expect(await keysAtStripe(run, 'v0')).toEqual([]);
    await expect(
      withFailures(() => planOpened(behind.freshDeps(run), run, 'test')),
    ).rejects.toMatchObject({ type: 'VaultRefused', nonRetryable: true });
  });
});

describe('a vault that does not fit', () => {
  it('V11: a cap from another plan than ours stops the run before anybody is charged', async () => {
    const run = await planned('2026-06');
    const url = await migratedDatabase();
    const other = openDatabase({ url, applicationName: 'other', poolSize: 2, onError: () => {} });
    const access = reachVault(behind.settings, { mode: 'test', db: other.db });
    try {
      await insertCustomers(other.db, [{ id: 'v0', amountMinor: PRICE + 1 }]);
      await planRun(other.db, run, 'test');
      const deps = engine.with({
        db: other.db,
        gateway: access.gatewayOutsideRuns(),
        vault: access,
      });
      const opened = withFailures(() => planOpened(deps, run, 'test'));
      await expect(opened).rejects.toMatchObject({ type: 'VaultRefused', nonRetryable: true });
      await expect(opened).rejects.toThrow(/15000 usd expected there, 1501 here/);
      const slot = slotRef('v0', run);
      await claimSlot(deps, slot);
      const { result } = await driveCharge({ ...deps, gateway: access.gatewayOf(run) }, slot);
      expect(result?.result).toMatchObject({ outcome: 'blocked', reason: 'vault_cap_differs' });
      expect(chargedIn(run)).toEqual({});
    } finally {
      access.close();
      await other.close();
    }
  });

  const workerWith = (
    options: Pick<Parameters<typeof startWorker>[0], 'stripe' | 'vault' | 'mode'>,
  ) =>
    startWorker({
      databaseUrl: new Secret(engine.databaseUrl),
      // Never reached: it is refused before.
      temporal: { connection: { address: '127.0.0.1:1' }, namespace: 'default' },
      chargesPerSecond: 0,
      reconcilePausesMs: [],
      absenceQuietMs: 1_000,
      maxCachedWorkflows: 50,
      onDatabaseError: () => {},
      ...options,
    });

  it('refuses a worker that has a Stripe key beside it', async () => {
    const stripe = { apiKey: new Secret(TEST_KEY), timeoutMs: 5_000 };
    await expect(workerWith({ stripe, vault: behind.settings, mode: 'test' })).rejects.toThrow(
      'only the vault holds a Stripe key',
    );
  });

  it('refuses a worker with another run token, and the message names the variable and no token', async () => {
    const wrong = `vrt_${'9'.repeat(64)}`;
    const vault = { ...behind.settings, runToken: new Secret(wrong) };
    const refused = workerWith({ stripe: null, vault, mode: 'test' });
    await expect(refused).rejects.toThrow(/does not take this VAULT_RUN_TOKEN \(401\)/);
    await expect(refused).rejects.not.toThrow(wrong);
  });

  it('refuses a worker of live mode while the vault has a test key', async () => {
    await expect(
      workerWith({ stripe: null, vault: behind.settings, mode: 'live' }),
    ).rejects.toThrow('the vault has a test key, and CHARGEONCE_MODE is live');
  });

  it('says who is billed, and sends nothing outside a run', async () => {
    const provider = openProvider(
      { stripe: null, vault: behind.settings, mode: 'test' },
      engine.db,
    );
    try {
      expect(await provider.account()).toBe(engine.deps.account);
      expect((await provider.gateway.account()).id).toBe(engine.deps.account);
      await expect(provider.gateway.retrievePaymentIntent('pi_1')).rejects.toThrow(
        'key of its run',
      );
    } finally {
      provider.close();
    }
  });
});

describe('a vault that is away', () => {
  it('is waited for: nothing leaves, the slot stays claimed for the same keys, and it goes on when it is back', async () => {
    const run = await planned('2026-07');
    const slot = slotRef('v0', run);
    const { proxyPort, adminPort } = behind.vault;
    await behind.close();
    const deps = behind.freshDeps(run);
    await claimSlot(deps, slot);
    await expect(withFailures(() => planOpened(deps, run, 'test'))).rejects.toMatchObject({
      type: 'VaultUnavailable',
      nonRetryable: false,
    });
    await expect(vaultAccount(deps.vault ?? never(), 'test', 0)).rejects.toThrow(
      /cannot be reached: ECONNREFUSED/,
    );
    const { result, failures } = await driveCharge(deps, slot, { attempts: 2 });
    expect([result, failures]).toEqual([null, ['ChargeNotExecuted', 'ChargeNotExecuted']]);
    expect(await keysAtStripe(run, 'v0')).toEqual([]);

    behind = await startEngineVault(engine, { proxy: proxyPort, admin: adminPort });
    expect((await driveCharge(deps, slot)).result?.result.outcome).toBe('charged');
    deps.vault?.close();
  });

  it('is the only way: Stripe itself knows no key of the vault', async () => {
    const run = await planned('2026-08');
    const direct = createStripeGateway({
      apiKey: keyOf(run).key,
      apiBase: engine.simulator.url,
      timeoutMs: 5_000,
    });
    await expect(direct.account()).rejects.toMatchObject({ status: 401 });
    direct.close();
  });
});

function never(): never {
  throw new Error('these deps have a vault');
}
