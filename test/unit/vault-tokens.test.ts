import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { vaultTokens, wantsEmbeddedVault } from '../../src/cli/vault-part.ts';
import { loadConfig } from '../../src/config.ts';
import { redact } from '../../src/log.ts';

let home: string;
beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'chargeonce-tokens-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

describe('the tokens of a home', () => {
  it('are made once, for twenty who ask at once too, and only their owner can read them', async () => {
    const asked = await Promise.all(Array.from({ length: 20 }, () => vaultTokens(home)));
    const runTokens = new Set(asked.map(({ runToken }) => runToken.reveal()));
    const adminTokens = new Set(asked.map(({ adminToken }) => adminToken.reveal()));
    expect([runTokens.size, adminTokens.size]).toEqual([1, 1]);
    const again = await vaultTokens(home);
    expect(runTokens.has(again.runToken.reveal())).toBe(true);

    const folder = path.join(home, 'vault');
    expect(await readdir(folder)).toEqual(['tokens.json']);
    expect((await stat(path.join(folder, 'tokens.json'))).mode & 0o777).toBe(0o600);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
  });

  it('are such as the configuration takes and a log leaves out', async () => {
    const { runToken, adminToken } = await vaultTokens(home);
    const VAULT_RUN_TOKEN = runToken.reveal();
    const VAULT_ADMIN_TOKEN = adminToken.reveal();
    const config = loadConfig({ VAULT_RUN_TOKEN, VAULT_ADMIN_TOKEN });
    expect(config.VAULT_RUN_TOKEN?.reveal()).toBe(VAULT_RUN_TOKEN);
    expect(redact(`${VAULT_RUN_TOKEN} ${VAULT_ADMIN_TOKEN}`)).toBe('[redacted] [redacted]');
  });

  it('are not made anew over a damaged file: the message names it and not what it holds', async () => {
    await vaultTokens(home);
    const file = path.join(home, 'vault', 'tokens.json');
    const kept = (await readFile(file, 'utf8')).slice(0, 40);
    await writeFile(file, kept);
    await expect(vaultTokens(home)).rejects.toThrow(`${file} is damaged`);
    expect(await readFile(file, 'utf8')).toBe(kept);
  });
});

describe('a worker that is brought up here', () => {
  const on = { EMBEDDED_VAULT: 'on' };
  const url = 'http://127.0.0.1:1';
  it.each<[string, Record<string, string>, boolean]>([
    ['with the simulator', on, true],
    ['with a Stripe key', { ...on, STRIPE_API_KEY: 'sk_test_1' }, true],
    ['where it is switched off', { EMBEDDED_VAULT: 'off' }, false],
    [
      'with a vault key, which has its vault already',
      {
        ...on,
        STRIPE_API_KEY: `vk_test_${'0'.repeat(16)}_${'a'.repeat(64)}`,
        STRIPE_API_BASE: url,
      },
      false,
    ],
    [
      'with a vault of its own',
      { ...on, VAULT_URL: url, VAULT_ADMIN_URL: url, VAULT_RUN_TOKEN: `vrt_${'a'.repeat(64)}` },
      false,
    ],
  ])('%s gets a vault before it or not', (_what, env, wanted) => {
    expect(wantsEmbeddedVault(loadConfig(env))).toBe(wanted);
  });
});
