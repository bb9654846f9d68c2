import type { Config } from '../config.ts';
import { createVaultClient, VaultRefused } from '../payments/vault-client.ts';
import type { Check } from './health.ts';

/** A configured vault: reachable, takes our token, and bills in our mode. Opens nothing. */
export async function checkVault(config: Config): Promise<Check[]> {
  const name = 'vault';
  const { VAULT_ADMIN_URL: adminUrl, VAULT_RUN_TOKEN: runToken } = config;
  if (config.VAULT_URL === undefined || adminUrl === undefined || runToken === undefined) {
    const embedded = config.EMBEDDED_VAULT === 'on';
    const found = embedded ? 'not configured: embedded' : 'switched off: no cap on embedded runs';
    return [{ name, state: 'ok', found }];
  }
  try {
    const client = createVaultClient({ adminUrl, runToken: runToken.reveal() });
    const { account, liveMode } = await client.account();
    const mode = liveMode ? 'live' : 'test';
    if (mode === config.mode) return [{ name, state: 'ok', found: `${account}, ${mode} mode` }];
    return [
      {
        name,
        state: 'fail',
        found: `it has a ${mode} key, and CHARGEONCE_MODE is ${config.mode}`,
        mend: 'use the vault of that mode, or change CHARGEONCE_MODE',
      },
    ];
  } catch (error) {
    const mend =
      error instanceof VaultRefused
        ? 'set VAULT_RUN_TOKEN to what the vault has'
        : 'check VAULT_ADMIN_URL, and that "chargeonce vault" is up';
    return [{ name, state: 'fail', found: error instanceof Error ? error.message : '', mend }];
  }
}
