import type { FastifyInstance, FastifyReply } from 'fastify';
import { closeRunKey, openRunKey, type Budget, type VaultKey } from '../db/vault-keys.ts';
import { assertNever } from '../domain/assert-never.ts';
import { parseBillingPeriod } from '../domain/billing-period.ts';
import type { RunRef } from '../domain/ids.ts';
import { parseBillingNamespace } from '../domain/namespace.ts';
import { deriveRunKey, hashKey } from '../vault-key.ts';
import type { AdminDeps } from './admin-api.ts';
import { vaultError } from './admin-error.ts';
import { RUN_ENDPOINTS } from './endpoints.ts';
import { keyAnswer, type CapAnswer } from '../vault-key-answer.ts';

/** What a worker is told of its run's key; the key itself it derives. */
interface RunKeyAnswer {
  readonly id: string;
  readonly caps: readonly CapAnswer[];
  readonly allowed_endpoints: readonly string[];
  readonly expires_at: string;
  /** until when it sends; null while the run goes on */
  readonly open_until: string | null;
}

interface RunRoute {
  Params: { readonly namespace: string; readonly period: string };
}

/** A run's key covers its charging, the settling of what was in doubt, and reruns. */
const RUN_KEY_DAYS = 400;
const DAY_MS = 24 * 60 * 60 * 1000;
const ACTOR = 'worker';

/** What workers may do: open and close the key of their run, and ask which account this vault bills. */
export function registerRunRoutes(app: FastifyInstance, deps: AdminDeps): void {
  const config = { role: 'run' } as const;
  app.get('/vault/account', { config }, () => ({
    account: deps.account,
    livemode: deps.liveMode,
  }));
  app.put<RunRoute>('/vault/runs/:namespace/:period', { config }, async (request, reply) => {
    const run = readRun(request.params);
    return typeof run === 'string' ? unknownRun(reply, run) : open(deps, run, reply);
  });
  app.post<RunRoute>('/vault/runs/:namespace/:period/close', { config }, async (request, reply) => {
    const run = readRun(request.params);
    if (typeof run === 'string') return unknownRun(reply, run);
    return { closed: await closeRunKey(deps.db, run, ACTOR) };
  });
}

/** Twice, or by every worker at once: one key, one cap, the same answer. */
async function open(deps: AdminDeps, run: RunRef, reply: FastifyReply): Promise<unknown> {
  if (deps.runToken === null) {
    const message = 'this vault has no VAULT_RUN_TOKEN, so it knows no keys of runs';
    return vaultError(reply, { status: 409, code: 'run_token_missing', message });
  }
  const { keyId, key } = deriveRunKey(deps.runToken, deps.liveMode ? 'live' : 'test', run);
  const opened = await openRunKey(deps.db, {
    run,
    keyId,
    secretHash: hashKey(key),
    account: deps.account,
    liveMode: deps.liveMode,
    allowedEndpoints: RUN_ENDPOINTS,
    expiresAt: new Date(deps.now().getTime() + RUN_KEY_DAYS * DAY_MS),
    actor: ACTOR,
  });
  switch (opened.kind) {
    case 'open':
      return runAnswer(opened.key, opened.budgets, deps.now());
    case 'notPlanned':
      return vaultError(reply, {
        status: 404,
        code: 'run_not_planned',
        message:
          'no run of this namespace and period is planned, so nothing says what it may spend',
      });
    case 'revoked':
      return vaultError(reply, {
        status: 409,
        code: 'vault_key_revoked',
        message: `the key of this run (${keyId}) was revoked by an operator and stays so`,
      });
    default:
      return assertNever(opened);
  }
}

function runAnswer(key: VaultKey, budgets: readonly Budget[], now: Date): RunKeyAnswer {
  const { id, caps, allowed_endpoints, expires_at, open_until } = keyAnswer(key, budgets, now);
  return { id, caps, allowed_endpoints, expires_at, open_until };
}

/** The run that the path names, or what is wrong with it. */
function readRun(params: RunRoute['Params']): RunRef | string {
  const namespace = parseBillingNamespace(params.namespace);
  if (!namespace.ok) return namespace.problem;
  const period = parseBillingPeriod(params.period);
  if (!period.ok) return period.problem;
  return { namespace: namespace.namespace, period: period.period };
}

function unknownRun(reply: FastifyReply, message: string): FastifyReply {
  return vaultError(reply, { status: 400, code: 'run_invalid', message });
}
