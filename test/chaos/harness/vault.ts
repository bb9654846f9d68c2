import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { openDatabase } from '../../../src/db/database.ts';
import { readDrift } from '../../../src/db/vault-drift.ts';
import type { PartSpec } from '../../../src/embedded/part-spec.ts';
import { deriveRunKey } from '../../../src/vault-key.ts';
import { eventually } from './luck.ts';
import type { World } from './world.ts';

/** What only the vault knows, and what it shares with the workers. None of it may be found anywhere afterwards. */
export const VAULT_SECRETS = {
  stripeKey: 'sk_test_acctChaos_1',
  adminToken: 'vat_chaosAdministrates0123456789abcdef',
  runToken: 'vrt_chaosBillsItsCustomers0123456789abc',
} as const;

export interface VaultPorts {
  readonly proxy: number;
  readonly admin: number;
}

/** The vault as a process of its own: the only one with the provider's key. */
export function vaultSpec(
  cli: string,
  ports: VaultPorts,
  env: Readonly<Record<string, string>>,
): PartSpec {
  return {
    name: 'vault',
    label: 'the vault',
    command: process.execPath,
    args: [cli, 'vault', '--proxy-port', String(ports.proxy), '--admin-port', String(ports.admin)],
    env: {
      ...env,
      STRIPE_API_KEY: VAULT_SECRETS.stripeKey,
      VAULT_ADMIN_TOKEN: VAULT_SECRETS.adminToken,
      VAULT_RUN_TOKEN: VAULT_SECRETS.runToken,
    },
    ready: { kind: 'http', url: `http://127.0.0.1:${ports.admin}/healthz` },
    ports: [ports.proxy, ports.admin],
    restart: false,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 15_000,
    startAttempts: 1,
  };
}

/** Has the vault ask the provider about every hold until none is left; false when some are when the time is over. */
export async function settleHolds(world: World, signal: AbortSignal): Promise<boolean> {
  return eventually(
    async () => {
      await fetch(new URL('/vault/sweep', world.vaultAdminUrl), {
        method: 'POST',
        headers: { authorization: `Bearer ${VAULT_SECRETS.adminToken}` },
        signal: AbortSignal.timeout(30_000),
      }).catch(() => {});
      const held = await world.query(
        `select 1 from vault_reservations where state = 'held' limit 1`,
      );
      return held.length === 0;
    },
    { timeoutMs: 30_000, pollMs: 500, signal },
  );
}

export interface VaultJudgement {
  readonly spentMinor: number;
  readonly succeededMinor: number;
  readonly reservations: number;
  readonly violations: readonly string[];
}

/** What the vault counted against what the provider took, to the cent; and that no secret lies about. */
export async function judgeVault(
  world: World,
  groups: readonly { readonly succeededMinorByCurrency: Readonly<Record<string, number>> }[],
): Promise<VaultJudgement> {
  const succeededMinor = groups
    .flatMap(({ succeededMinorByCurrency }) => Object.values(succeededMinorByCurrency))
    .reduce((sum, minor) => sum + minor, 0);
  const database = openDatabase({
    url: world.databaseUrl,
    applicationName: 'chaos harness',
    onError: () => {},
  });
  try {
    const { windows, differing } = await readDrift(database.db);
    const spentMinor = windows.reduce((sum, row) => sum + row.spentMinor, 0);
    const usedMinor = windows.reduce((sum, row) => sum + row.usedMinor, 0);
    const violations = differing.map(
      (row) => `vault: the sums of ${row.currency} differ: ${JSON.stringify(row)}`,
    );
    if (spentMinor !== succeededMinor)
      violations.push(`vault: ${spentMinor} spent, and the provider took ${succeededMinor}`);
    if (usedMinor !== spentMinor)
      violations.push(`vault: ${usedMinor - spentMinor} are still held when nothing is open`);
    for (const found of await secretsLyingAbout(world)) violations.push(`vault: ${found}`);
    const [count] = await world.query<{ n: number }>(
      'select count(*)::integer as n from vault_reservations',
    );
    return { spentMinor, succeededMinor, reservations: count?.n ?? 0, violations };
  } finally {
    await database.close();
  }
}

/** Files of databases and logs in which a secret stands, as bytes. The provider's own may know its key. */
async function secretsLyingAbout(world: World): Promise<string[]> {
  const { key } = deriveRunKey(VAULT_SECRETS.runToken, 'test', world.run);
  const secrets = new Map<string, string>([
    ['the Stripe key', VAULT_SECRETS.stripeKey],
    ['the admin token', VAULT_SECRETS.adminToken],
    ['the run token', VAULT_SECRETS.runToken],
    ["the run's key", key],
  ]);
  const found: string[] = [];
  // A search that reads nothing finds nothing: the run's name stands in every log and database.
  const wanted = new Set(['temporal.db', 'a table']);
  for (const file of await filesBelow([world.home, world.postgresData])) {
    const bytes = await readFile(file).catch(() => Buffer.alloc(0));
    for (const [name, secret] of secrets)
      if (bytes.includes(secret)) found.push(`${name} stands in ${path.basename(file)}`);
    if (bytes.includes(world.run.period))
      wanted.delete(file.startsWith(world.postgresData) ? 'a table' : path.basename(file));
  }
  return [...found, ...[...wanted].map((place) => `the search for secrets did not read ${place}`)];
}

async function filesBelow(folders: readonly string[]): Promise<string[]> {
  const files = new Set<string>();
  for (const folder of folders) {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    for (const entry of entries) {
      const file = path.join(entry.parentPath, entry.name);
      if (entry.isFile() && !file.includes(`${path.sep}simulator${path.sep}`)) files.add(file);
    }
  }
  return [...files];
}
