import { z } from 'zod';
import { parseJson } from './domain/json.ts';

/** The admin API of a vault, and what it wants to be shown. */
export interface VaultAdminTarget {
  readonly url: string;
  /** VAULT_ADMIN_TOKEN */
  readonly token: string;
}

export interface VaultAdminRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
}

export type VaultAdminAnswer =
  /** 2xx, with what it says */
  | { readonly kind: 'answered'; readonly json: unknown }
  | {
      readonly kind: 'refused';
      readonly status: number;
      readonly code: string | null;
      /** what the vault says, for whoever asked */
      readonly message: string;
      readonly param: string | null;
    }
  /** no answer came: what was ordered may have been done */
  | { readonly kind: 'unreachable'; readonly why: string; readonly error: unknown };

const errorSchema = z.object({
  error: z.object({ code: z.string(), message: z.string(), param: z.string().nullish() }),
});

/** Asks once and says what came of it; throws nothing. Twice: two requests, of which each does what it says. */
export async function askVaultAdmin(
  { url, token }: VaultAdminTarget,
  { method, path, body }: VaultAdminRequest,
  timeoutMs: number,
): Promise<VaultAdminAnswer> {
  let status: number;
  let text: string;
  try {
    const response = await fetch(new URL(path, url), {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      // A vault that sends us elsewhere would be sent our token there.
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
    });
    ({ status } = response);
    text = await response.text();
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    const why = cause instanceof Error && 'code' in cause ? String(cause.code) : 'no answer';
    return { kind: 'unreachable', why, error };
  }
  const json = parseJson(text);
  if (status >= 200 && status < 300) return { kind: 'answered', json };
  const said = errorSchema.safeParse(json).data?.error;
  return {
    kind: 'refused',
    status,
    code: said?.code ?? null,
    message: said?.message ?? `it answered ${status}`,
    param: said?.param ?? null,
  };
}
