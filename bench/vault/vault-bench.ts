import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { loadConfig } from '../../src/config.ts';
import { openPlatform, type Platform } from '../../src/cli/platform.ts';
import { VAULT_NODE_FLAGS } from '../../src/cli/vault-part.ts';
import { baseEnv } from '../stack.ts';
import { startStubStripe, type StubStripe } from './stub-stripe.ts';

const CLI = fileURLToPath(new URL('../../src/cli.ts', import.meta.url));
const ADMIN_TOKEN = 'vat_benchAdministrates0123456789abcdef';

/** A vault as a process of its own, on a database of its own, before a Stripe that costs nothing. */
export interface VaultBench {
  readonly stub: StubStripe;
  readonly proxyUrl: string;
  readonly pid: number;
  readonly platform: Platform;
  /** a new key with room for everything */
  key(): Promise<string>;
  close(): Promise<void>;
}

const addresses = z.object({ proxyUrl: z.string(), adminUrl: z.string(), pid: z.number() });
const made = z.object({ key: z.string() });

export async function startVaultBench(home: string): Promise<VaultBench> {
  const env = { ...baseEnv(), CHARGEONCE_HOME: home, LOG_LEVEL: 'error' };
  const stub = await startStubStripe();
  const platform = await openPlatform({
    config: loadConfig(env),
    env,
    embeddedOnly: true,
    needs: {},
    note: () => {},
  });
  const vault = spawn(
    process.execPath,
    [...VAULT_NODE_FLAGS, CLI, 'vault', '--proxy-port', '0', '--admin-port', '0', '--json'],
    {
      env: {
        ...env,
        DATABASE_URL: platform.databaseUrl.reveal(),
        STRIPE_API_KEY: 'sk_test_bench',
        STRIPE_API_BASE: stub.url,
        VAULT_ADMIN_TOKEN: ADMIN_TOKEN,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const { proxyUrl, adminUrl, pid } = await firstLine(vault);
  return {
    stub,
    proxyUrl,
    pid,
    platform,
    async key() {
      const response = await fetch(new URL('/vault/keys', adminUrl), {
        method: 'POST',
        headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          vendor: 'stripe',
          max_amount: 1_000_000_000_000,
          currency: 'usd',
          cap_basis: 'total',
          allowed_endpoints: ['POST /v1/payment_intents', 'POST /v1/payment_intents/:id/confirm'],
        }),
      });
      const text = await response.text();
      if (response.status !== 201) throw new Error(`no vault key: ${text}`);
      return made.parse(JSON.parse(text)).key;
    },
    async close() {
      vault.kill('SIGTERM');
      if (vault.exitCode === null) await once(vault, 'exit');
      await platform.close();
      await stub.close();
    },
  };
}

async function firstLine(vault: ChildProcess): Promise<z.infer<typeof addresses>> {
  if (vault.stdout === null) throw new Error('the vault has no stdout');
  for await (const line of createInterface({ input: vault.stdout })) {
    if (line.startsWith('{')) return addresses.parse(JSON.parse(line));
  }
  throw new Error('the vault ended before it was ready');
}
