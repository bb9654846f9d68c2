import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import type { Config } from '../config.ts';
import { parseJson } from '../domain/json.ts';
import { homeLayout } from '../embedded/home.ts';
import type { VaultAdminAccess } from '../http/api/deps.ts';
import type { Secret } from '../secret.ts';
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
  const access = await vaultAdminAccess(config);
  if (access === null)
    throw new CommandError(
      EXIT.usage,
      'VAULT_ADMIN_TOKEN is not set: it is the token that the vault was started with',
    );
  const base = access.url;
  return {
    async call(request, schema) {
      const { host } = new URL(base);
      const answer = await askVaultAdmin(
        { url: base, token: access.token.reveal() },
        request,
        TIMEOUT_MS,
      );
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

/**
 * Where the vault's admin API is and with what it is asked, by the configuration or, where that names none, the one of
 * this home; null when there is neither.
 */
export async function vaultAdminAccess(config: Config): Promise<VaultAdminAccess | null> {
  const { VAULT_ADMIN_URL: url, VAULT_ADMIN_TOKEN: token } = config;
  if (url !== undefined) return token === undefined ? null : { url, token };
  const own = token ?? (await homeToken(config));
  return own === null ? null : { url: `http://127.0.0.1:${await homePort(config)}`, token: own };
}

/** Looked at only: a home that has had no vault gets no tokens from us. */
async function homeToken({ CHARGEONCE_HOME: home }: Config): Promise<Secret | null> {
  if (!existsSync(path.resolve(home, 'vault', 'tokens.json'))) return null;
  return (await vaultTokens(home)).adminToken;
}

/** Where the home's own vault has its admin API: the port it was given, which need not be the usual one. */
async function homePort(config: Config): Promise<number> {
  if (config.VAULT_ADMIN_PORT !== undefined) return config.VAULT_ADMIN_PORT;
  const text = await readFile(homeLayout(config.CHARGEONCE_HOME).ports, 'utf8').catch(() => '');
  const ports = portsSchema.safeParse(parseJson(text));
  return (ports.success ? ports.data['vaultSecond'] : undefined) ?? VAULT_ADMIN_PORT;
}
