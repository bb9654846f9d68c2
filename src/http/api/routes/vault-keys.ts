import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { writeAuditEntry, type AuditEntry } from '../../../db/audit-log.ts';
import { pageVaultKeys, type PagedKey } from '../../../db/vault-key-pages.ts';
import { findVaultKey } from '../../../db/vault-keys.ts';
import { readVaultLog } from '../../../db/vault-log.ts';
import { askVaultAdmin, type VaultAdminRequest } from '../../../vault-admin-client.ts';
import { answerLog } from '../../../vault-log-answer.ts';
import { callerOf } from '../auth.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { KEYED } from '../keyed.ts';
import { toPage } from '../paging.ts';
import { ApiProblem, problem } from '../problems.ts';
import { orderBody } from '../schemas/common.ts';
import {
  createdVaultKey,
  vaultKey,
  vaultKeyBody,
  vaultKeyChange,
  vaultKeyParams,
  vaultKeys,
  vaultKeysQuery,
  vaultLog,
  vaultLogQuery,
} from '../schemas/vault.ts';
import { vaultKeyOf, vaultRequestOf } from '../vault-view.ts';

const TAGS = ['vault'];
/** Postgres answers the vault in milliseconds. */
const ASK_TIMEOUT_MS = 10_000;
const HANDED_ON = ['vault-refused', 'vault-not-configured', 'vault-unavailable'] as const;

/** `/v1/vault`: keys and the log of the vault. Reads come from the database; orders are handed on to the vault. */
export function registerVaultKeys(app: ApiApp, deps: ApiDeps): void {
  registerReads(app, deps);
  registerLog(app, deps);
  registerCreate(app, deps);
  registerChange(app, deps);
  registerRevoke(app, deps);
}

function registerReads(app: ApiApp, deps: ApiDeps): void {
  app.get(
    '/vault/keys',
    {
      config: { access: 'viewer' },
      schema: {
        tags: TAGS,
        summary: 'Vault keys, the newest first, with what is used of their caps',
        querystring: vaultKeysQuery,
        response: { 200: vaultKeys },
      },
    },
    async (request) => {
      const { limit, after } = request.query;
      const from = after === undefined ? null : { createdMicros: after[1], keyId: after[2] };
      const rows = await pageVaultKeys(deps.db, { after: from, limit: limit + 1 });
      const keyOf = ({ key, createdMicros }: PagedKey) => ['vault-key', createdMicros, key.keyId];
      const { data, next } = toPage(rows, { limit, keyOf, show: ({ key }) => key });
      return { data: await Promise.all(data.map((key) => vaultKeyOf(deps, key))), next };
    },
  );
  app.get(
    '/vault/keys/:id',
    {
      config: { access: 'viewer', problems: ['vault-key-unknown'] },
      schema: {
        tags: TAGS,
        summary: 'One vault key',
        params: vaultKeyParams,
        response: { 200: vaultKey },
      },
    },
    async (request) => shownKey(deps, request.params.id),
  );
}

async function shownKey(deps: ApiDeps, keyId: string) {
  const key = await findVaultKey(deps.db, keyId);
  if (key === null) throw new ApiProblem('vault-key-unknown', `no vault key has the id ${keyId}`);
  return vaultKeyOf(deps, key);
}

function registerLog(app: ApiApp, { db }: ApiDeps): void {
  app.get(
    '/vault/log',
    {
      config: { access: 'viewer' },
      schema: {
        tags: TAGS,
        summary: 'Did it go out twice, or did the retry never reach the network?',
        querystring: vaultLogQuery,
        response: { 200: vaultLog },
      },
    },
    async (request) => {
      const { limit, idempotency_key: idempotencyKey, customer, period } = request.query;
      const { vault_key: keyId } = request.query;
      const asked = {
        ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
        ...(customer === undefined ? {} : { customerId: customer }),
        ...(period === undefined ? {} : { period }),
        ...(keyId === undefined ? {} : { keyId }),
      };
      // The newest that fit, oldest first: one too many is the first.
      const rows = await readVaultLog(db, { ...asked, limit: limit + 1 });
      const shown = rows.slice(-limit);
      return {
        answer: answerLog(shown, asked),
        truncated: rows.length > limit,
        data: shown.map((row) => vaultRequestOf(row)),
      };
    },
  );
}

function registerCreate(app: ApiApp, deps: ApiDeps): void {
  app.post(
    '/vault/keys',
    {
      config: {
        access: 'admin',
        // Twice would be two keys, and the key itself is not kept.
        idempotency: { takeover: 'conflict', storeBody: false },
        problems: HANDED_ON,
      },
      schema: {
        tags: TAGS,
        summary: 'Make a vault key; it is shown once',
        description:
          'A repeat does not show it again: find the key in the list, revoke it, and make another one with a new Idempotency-Key.',
        body: vaultKeyBody,
        response: { 201: createdVaultKey },
      },
      preHandler: knowsVault(deps),
    },
    async (request, reply) => {
      const { reason, ...order } = request.body;
      await note(deps, request, {
        action: 'vault_key.create_ordered',
        reason,
        details: capOf(order),
      });
      const body = { ...order, operator: callerOf(request).name };
      const answer = await handOn(deps, { method: 'POST', path: '/vault/keys', body });
      const made = createdVaultKey.safeParse(answer);
      if (!made.success)
        throw new ApiProblem('vault-unavailable', 'what answers is no vault of this release');
      return reply.code(201).header('Location', `/v1/vault/keys/${made.data.id}`).send(made.data);
    },
  );
}

function registerChange(app: ApiApp, deps: ApiDeps): void {
  app.patch(
    '/vault/keys/:id',
    {
      config: {
        access: 'approver',
        // A cap only rises and an end only comes later, so that twice is once.
        idempotency: KEYED,
        problems: [...HANDED_ON, 'vault-key-unknown', 'vault-key-revoked'],
      },
      schema: {
        tags: TAGS,
        summary: 'Raise a cap, or let a key expire later; never the reverse',
        params: vaultKeyParams,
        body: vaultKeyChange,
        response: { 200: vaultKey },
      },
      preHandler: knowsVault(deps),
    },
    async (request) => {
      const { id } = request.params;
      const { reason, ...change } = request.body;
      const details = { keyId: id, ...capOf(change) };
      await note(deps, request, { action: 'vault_key.change_ordered', reason, details });
      const body = { ...change, reason, operator: callerOf(request).name };
      try {
        await handOn(deps, { method: 'PATCH', path: `/vault/keys/${id}`, body });
      } catch (error) {
        const again = request.idempotency?.takenOver === true && error instanceof ApiProblem;
        if (!again || !(await isSo(deps, id, request.body))) throw error;
      }
      return shownKey(deps, id);
    },
  );
}

/** Whether a key is as the order says already: whoever died before answering has done it. */
async function isSo(
  deps: ApiDeps,
  keyId: string,
  wanted: z.output<typeof vaultKeyChange>,
): Promise<boolean> {
  const { caps, expires_at: end } = await shownKey(deps, keyId);
  if (wanted.expires_at !== undefined) return Date.parse(end) === Date.parse(wanted.expires_at);
  const currency = wanted.currency?.toLowerCase();
  return caps.some((cap) => cap.currency === currency && cap.cap === wanted.max_amount);
}

function registerRevoke(app: ApiApp, deps: ApiDeps): void {
  app.delete(
    '/vault/keys/:id',
    {
      config: {
        access: 'operator',
        // A revoked key stays revoked.
        idempotency: KEYED,
        problems: [...HANDED_ON, 'vault-key-unknown'],
      },
      schema: {
        tags: TAGS,
        summary: 'End a vault key for good, with its next request',
        params: vaultKeyParams,
        body: orderBody,
        response: { 200: vaultKey },
      },
      preHandler: knowsVault(deps),
    },
    async (request) => {
      const { id } = request.params;
      const { reason } = request.body;
      const body = { reason, operator: callerOf(request).name };
      const details = { keyId: id };
      await note(deps, request, { action: 'vault_key.revoke_ordered', reason, details });
      await handOn(deps, { method: 'DELETE', path: `/vault/keys/${id}`, body });
      return shownKey(deps, id);
    },
  );
}

/** Before the handler, so that it uses up no Idempotency-Key. */
function knowsVault({ vaultAdmin }: ApiDeps) {
  return async (_request: FastifyRequest, reply: FastifyReply) =>
    vaultAdmin === null
      ? problem(
          reply,
          'vault-not-configured',
          'set VAULT_ADMIN_URL and VAULT_ADMIN_TOKEN for the server, or use "chargeonce vault keys"',
        )
      : undefined;
}

/** Sends an order to the vault and gives what it says; throws the problem that stands in the way. */
async function handOn(deps: ApiDeps, order: VaultAdminRequest): Promise<unknown> {
  const { vaultAdmin, log } = deps;
  if (vaultAdmin === null) throw new Error('the route was reached without a vault');
  const target = { url: vaultAdmin.url, token: vaultAdmin.token.reveal() };
  const answer = await askVaultAdmin(target, order, ASK_TIMEOUT_MS);
  switch (answer.kind) {
    case 'answered':
      return answer.json;
    case 'unreachable':
      log.error({ err: answer.error }, 'the vault cannot be reached');
      throw new ApiProblem('vault-unavailable', `the vault cannot be reached: ${answer.why}`);
    case 'refused':
      throw refusal(deps, answer);
  }
}

function refusal(
  { log }: ApiDeps,
  answer: { readonly status: number; readonly code: string | null; readonly message: string },
): ApiProblem {
  const { status, code, message } = answer;
  if (status === 404) return new ApiProblem('vault-key-unknown', message);
  if (status === 409) return new ApiProblem('vault-key-revoked', message);
  if (status === 400) return new ApiProblem('vault-refused', message);
  // A wrong token is this server's fault, and no business of the caller's.
  log.error({ status, code }, 'the vault refused this server');
  return new ApiProblem(
    'vault-unavailable',
    'the vault does not serve this server; its log says why',
  );
}

/** What an order says of money and time, for the log. */
function capOf(order: Partial<Pick<z.output<typeof vaultKeyBody>, CapPart>>) {
  const { max_amount: cap, daily_usd_cap: daily, currency, expires_at: expiresAt } = order;
  return {
    ...(cap === undefined ? {} : { cap }),
    ...(daily === undefined ? {} : { dailyUsdCap: daily }),
    ...(currency === undefined ? {} : { currency }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
}
type CapPart = 'max_amount' | 'daily_usd_cap' | 'currency' | 'expires_at';

/** Written before the vault is told: an entry too many is better than a change that nobody ordered. */
async function note(
  { db }: ApiDeps,
  request: FastifyRequest,
  order: Required<Pick<AuditEntry, 'action' | 'reason' | 'details'>>,
): Promise<void> {
  await writeAuditEntry(db, { actor: callerOf(request).name, ...order });
}
