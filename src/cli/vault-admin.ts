import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import type { Config } from '../config.ts';
import { parseJson } from '../domain/json.ts';
import { homeLayout } from '../embedded/home.ts';
import { askVaultAdmin, type VaultAdminRequest } from '../vault-admin-client.ts';
import { CommandError, EXIT } from './exit-codes.ts';
import { VAULT_ADMIN_PORT, vaultTokens } from './vault-part.ts';

/** The vault's admin API, as an operator's command uses it. */
export interface VaultAdmin {
  /** Sends once and gives the answer's body; throws a {@link CommandError} that says what the vault said. */
  call<T>(request: VaultAdminRequest, schema: z.ZodType<T>): Promise<T>;
}

/** A sweep asks Stripe about every open reservation. */
const TIMEOUT_MS = 120_000;

const portsSchema = z.record(z.string(), z.number());

/**
 * The vault that the configuration names: VAULT_ADMIN_URL with VAULT_ADMIN_TOKEN, else the one of this home, whose
 * token is in it. Sends nothing yet.
 */
export async function vaultAdminOf(config: Config): Promise<VaultAdmin> {
  const base = config.VAULT_ADMIN_URL ?? `http://127.0.0.1:${await homePort(config)}`;
  const token = await adminToken(config);
  return {
    async call(request, schema) {
      const { host } = new URL(base);
      const answer = await askVaultAdmin({ url: base, token }, request, TIMEOUT_MS);
      switch (answer.kind) {
        case 'answered': {
          const parsed = schema.safeParse(answer.json);
          if (parsed.success) return parsed.data;
          throw new CommandError(EXIT.unavailable, `${host} gave an answer that is no vault's`);
        }
        case 'refused': {
          if (answer.status === 401)
            throw new CommandError(
              EXIT.usage,
              `the vault at ${host} does not take this VAULT_ADMIN_TOKEN: it must be the one that the vault was started with`,
            );
          const code = answer.status >= 500 ? EXIT.unavailable : EXIT.usage;
          throw new CommandError(code, `the vault refused: ${answer.message}`);
        }
        case 'unreachable':
          throw new CommandError(
            EXIT.unavailable,
            `the vault at ${host} cannot be reached: ${answer.why}. Check VAULT_ADMIN_URL, and that "chargeonce vault" is up`,
            answer.error,
          );
      }
    },
  };
}

async function adminToken(config: Config): Promise<string> {
  if (config.VAULT_ADMIN_TOKEN !== undefined) return config.VAULT_ADMIN_TOKEN.reveal();
  const { CHARGEONCE_HOME: home } = config;
  // Looked at only: a home that has had no vault gets no tokens from us. It is for the home's own vault, whoever answers
  // at another address would learn it.
  if (
    config.VAULT_ADMIN_URL === undefined &&
    existsSync(path.resolve(home, 'vault', 'tokens.json'))
  )
    return (await vaultTokens(home)).adminToken.reveal();
  throw new CommandError(
    EXIT.usage,
    'VAULT_ADMIN_TOKEN is not set: it is the token that the vault was started with',
  );
}

/** Where the home's own vault has its admin API: the port it was given, which need not be the usual one. */
async function homePort(config: Config): Promise<number> {
  if (config.VAULT_ADMIN_PORT !== undefined) return config.VAULT_ADMIN_PORT;
  const text = await readFile(homeLayout(config.CHARGEONCE_HOME).ports, 'utf8').catch(() => '');
  const ports = portsSchema.safeParse(parseJson(text));
  return (ports.success ? ports.data['vaultSecond'] : undefined) ?? VAULT_ADMIN_PORT;
}
