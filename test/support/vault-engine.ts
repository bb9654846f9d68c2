import { expect } from 'vitest';
import { depsOf, type ActivityDeps } from '../../src/activities/deps.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { reachVault, type VaultSettings } from '../../src/provider.ts';
import { Secret } from '../../src/secret.ts';
import { startVault, type RunningVault } from '../../src/vault.ts';
import { TEST_KEY, type Engine } from './engine.ts';

export const RUN_TOKEN = `vrt_${'1'.repeat(64)}`;
export const ADMIN_TOKEN = `vat_${'2'.repeat(64)}`;

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** A vault between an engine and its simulator. */
export interface EngineVault {
  readonly vault: RunningVault;
  readonly settings: VaultSettings;
  /** what the activities are given for an order of this run, as the worker does it */
  depsOf(run: RunRef): ActivityDeps;
  /** the same, of a worker process that has just started */
  freshDeps(run: RunRef): ActivityDeps;
  /** One call of the admin API, which must succeed. */
  admin(method: string, path: string, body?: object): Promise<Record<string, unknown>>;
  close(): Promise<void>;
}

/** Starts a vault on the engine's database; it has the engine's Stripe key. Close it before the engine. */
export async function startEngineVault(
  engine: Engine,
  ports: { readonly proxy: number; readonly admin: number } = { proxy: 0, admin: 0 },
): Promise<EngineVault> {
  const vault = await startVault({
    databaseUrl: new Secret(engine.databaseUrl),
    stripe: { apiKey: new Secret(TEST_KEY), apiBase: engine.simulator.url, timeoutMs: 5_000 },
    mode: 'test',
    absenceQuietMs: 1_000,
    adminToken: new Secret(ADMIN_TOKEN),
    runToken: new Secret(RUN_TOKEN),
    alerts: { webhook: null, slackUrl: null },
    proxy: { host: '127.0.0.1', port: ports.proxy },
    admin: { host: '127.0.0.1', port: ports.admin },
    log: silent,
  });
  const settings: VaultSettings = {
    proxyUrl: vault.proxyUrl,
    adminUrl: vault.adminUrl,
    runToken: new Secret(RUN_TOKEN),
    timeoutMs: 5_000,
  };
  const undo: (() => void)[] = [];
  const newDeps = (): ActivityDeps => {
    const access = reachVault(settings, { mode: 'test', db: engine.db });
    undo.push(() => access.close());
    return engine.with({ gateway: access.gatewayOutsideRuns(), vault: access });
  };
  const deps = newDeps();
  return {
    vault,
    settings,
    depsOf: (run) => depsOf(deps, run),
    freshDeps: (run) => depsOf(newDeps(), run),
    async admin(method, path, body) {
      const response = await fetch(new URL(path, vault.adminUrl), {
        method,
        headers: {
          authorization: `Bearer ${ADMIN_TOKEN}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      expect(response.ok, `${method} ${path}: ${response.status} ${text}`).toBe(true);
      return JSON.parse(text);
    },
    async close() {
      for (const step of undo) step();
      await vault.shutdown();
    },
  };
}
