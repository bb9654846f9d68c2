import { z } from 'zod';
import { parseJson } from '../domain/json.ts';
import type { RunRef } from '../domain/ids.ts';

/** The vault did not answer, or has no database just now: nothing was decided, and the same again may help. */
export class VaultUnavailable extends Error {
  override readonly name = 'VaultUnavailable';
}

/** The vault said no, and will again until somebody changes something. */
export class VaultRefused extends Error {
  override readonly name = 'VaultRefused';
  readonly status: number;
  readonly code: string;

  constructor(message: string, refusal: { readonly status: number; readonly code: string }) {
    super(message);
    this.status = refusal.status;
    this.code = refusal.code;
  }
}

/** A cap of a run's key, in minor units. */
export interface RunCap {
  readonly currency: string;
  readonly capMinor: number;
  /** what the vault read in the plan; null when nobody expects a sum */
  readonly expectedMinor: number | null;
}

/** The engine's three calls to the admin API. Throws {@link VaultUnavailable} or {@link VaultRefused}. */
export interface VaultClient {
  /** Whom the vault's own Stripe key bills. */
  account(): Promise<{ readonly account: string; readonly liveMode: boolean }>;
  /** Opens the run's key, making it at the first call. Twice: the same key and caps. */
  openRun(run: RunRef): Promise<readonly RunCap[]>;
  /** Sends of the run's key are refused from now on; reads still pass. Twice: closed. */
  closeRun(run: RunRef): Promise<void>;
}

export interface VaultClientOptions {
  readonly adminUrl: string;
  /** shared with the vault, VAULT_RUN_TOKEN */
  readonly runToken: string;
}

/** Postgres answers in milliseconds; a vault that takes this long is as good as away. */
const TIMEOUT_MS = 5_000;

const accountSchema = z.object({ account: z.string().min(1), livemode: z.boolean() });
const runSchema = z.object({
  caps: z.array(z.object({ currency: z.string(), cap: z.int(), expected: z.int().nullish() })),
});
const errorSchema = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** A client of the admin API of a vault. Keeps no state; calls at once do not disturb each other. */
export function createVaultClient(options: VaultClientOptions): VaultClient {
  const call = <T>(method: string, path: string, schema: z.ZodType<T>): Promise<T> =>
    ask(options, { method, path, schema });
  return {
    async account() {
      const { account, livemode } = await call('GET', '/vault/account', accountSchema);
      return { account, liveMode: livemode };
    },
    async openRun(run) {
      const { caps } = await call('PUT', pathOf(run), runSchema);
      return caps.map(({ currency, cap, expected }) => ({
        currency,
        capMinor: cap,
        expectedMinor: expected ?? null,
      }));
    },
    async closeRun(run) {
      await call('POST', `${pathOf(run)}/close`, z.unknown());
    },
  };
}

function pathOf({ namespace, period }: RunRef): string {
  return `/vault/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(period)}`;
}

async function ask<T>(
  { adminUrl, runToken }: VaultClientOptions,
  call: { readonly method: string; readonly path: string; readonly schema: z.ZodType<T> },
): Promise<T> {
  const url = new URL(call.path, adminUrl);
  const where = `the vault at ${url.host}`;
  let status: number;
  let text: string;
  try {
    const response = await fetch(url, {
      method: call.method,
      headers: { authorization: `Bearer ${runToken}` },
      // A vault that sends us elsewhere would be sent our token there.
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    status = response.status;
    text = await response.text();
  } catch (error) {
    throw new VaultUnavailable(`${where} cannot be reached: ${whyOf(error)}`, { cause: error });
  }
  if (status >= 200 && status < 300) {
    const parsed = call.schema.safeParse(parseJson(text));
    if (parsed.success) return parsed.data;
    throw new VaultUnavailable(`${where} gave an answer to ${call.path} that is none of a vault's`);
  }
  throw refusalOf(where, status, errorSchema.safeParse(parseJson(text)).data?.error);
}

function refusalOf(
  where: string,
  status: number,
  said: { readonly code: string; readonly message: string } | undefined,
): Error {
  if (status >= 500 || status === 429 || status === 408)
    return new VaultUnavailable(
      `${where} answered ${status}: ${said?.message ?? 'no reason given'}`,
    );
  const code = said?.code ?? `vault_${status}`;
  if (status === 401) {
    return new VaultRefused(
      `${where} does not take this VAULT_RUN_TOKEN (401): it must be the same as the vault's own`,
      { status, code },
    );
  }
  return new VaultRefused(`${where} refused: ${said?.message ?? `status ${status}`}`, {
    status,
    code,
  });
}

/** fetch says only "fetch failed"; what the socket said stands in its cause. */
function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  return 'code' in cause ? String(cause.code) : cause.message;
}
