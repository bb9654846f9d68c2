import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Db } from '../db/database.ts';
import {
  extendExpiry,
  findVaultKey,
  insertVaultKey,
  listVaultKeys,
  raiseCap,
  readBudgets,
  revokeVaultKey,
  type VaultKey,
} from '../db/vault-keys.ts';
import { assertNever } from '../domain/assert-never.ts';
import { hashKey, newKey } from '../vault-key.ts';
import type { AdminDeps } from './admin-api.ts';
import { vaultError } from './admin-error.ts';
import {
  readKeyChange,
  readKeyOrder,
  readRevokeOrder,
  type BodyProblem,
  type KeyChange,
  type KeyOrder,
} from './admin-schemas.ts';
import { keyAnswer, type KeyAnswer } from '../vault-key-answer.ts';

interface KeyRoute {
  Params: { readonly id: string };
}

/** Makes, shows, raises and revokes keys. A key is shown by the answer that made it and never again. */
export function registerKeyRoutes(app: FastifyInstance, deps: AdminDeps): void {
  const { db } = deps;
  app.post('/vault/keys', async (request, reply) => {
    const order = readKeyOrder(request.body, deps.now());
    if (!order.ok) return badBody(reply, order.problem);
    return reply.code(201).send(await createKey(deps, order.value));
  });
  app.get('/vault/keys', async () => {
    const keys = await listVaultKeys(db);
    const data: KeyAnswer[] = [];
    for (const key of keys) data.push(await answerOf(deps, key));
    return { data };
  });
  app.get<KeyRoute>('/vault/keys/:id', async (request, reply) => {
    const key = await findVaultKey(db, request.params.id);
    return key === null ? unknownKey(reply) : answerOf(deps, key);
  });
  app.patch<KeyRoute>('/vault/keys/:id', async (request, reply) => {
    const change = readKeyChange(request.body, deps.now());
    if (!change.ok) return badBody(reply, change.problem);
    const key = await findVaultKey(db, request.params.id);
    if (key === null) return unknownKey(reply);
    if (key.revokedAt !== null) return revokedKey(reply);
    const problem = await changeKey(db, key, change.value);
    if (problem !== null) return vaultError(reply, { status: 400, ...problem });
    return answerOf(deps, await reread(db, key.keyId));
  });
  app.delete<KeyRoute>('/vault/keys/:id', async (request, reply) => {
    const order = readRevokeOrder(request.body);
    if (!order.ok) return badBody(reply, order.problem);
    const { id: keyId } = request.params;
    if (!(await revokeVaultKey(db, { keyId, ...order.value }))) return unknownKey(reply);
    return answerOf(deps, await reread(db, keyId));
  });
}

/** The body of a 201: the key itself is in it, once. */
type CreatedKey = KeyAnswer & { readonly key: string };

/**
 * Stores a new key and answers what was stored, read back: a field that got lost on the way would show. Twice: two
 * keys, since nothing names the first one in the second order.
 */
async function createKey(deps: AdminDeps, order: KeyOrder): Promise<CreatedKey> {
  const { db, account, liveMode } = deps;
  const { keyId, key } = newKey(liveMode ? 'live' : 'test');
  await insertVaultKey(db, {
    keyId,
    secretHash: hashKey(key),
    account,
    liveMode,
    capBasis: order.capBasis,
    namespace: null,
    period: order.period,
    allowedEndpoints: order.allowedEndpoints,
    expiresAt: order.expiresAt,
    caps: [{ currency: order.currency, capMinor: order.capMinor, expectedMinor: null }],
    actor: order.operator,
  });
  const stored = await answerOf(deps, await reread(db, keyId));
  const [cap] = stored.caps;
  if (cap === undefined || cap.cap !== order.capMinor || cap.currency !== order.currency)
    throw new Error(`vault key ${keyId} was stored with another cap than was ordered`);
  deps.log.info({ vaultKey: keyId, cap: cap.cap, currency: cap.currency }, 'a vault key was made');
  const { id, ...rest } = stored;
  return { id, key, ...rest };
}

/** What is wrong with the change, or null when it was made. */
async function changeKey(db: Db, key: VaultKey, change: KeyChange): Promise<BodyProblem | null> {
  const { keyId } = key;
  const { operator, reason } = change;
  switch (change.kind) {
    case 'raise': {
      const { currency, capMinor } = change;
      const done = await raiseCap(db, { keyId, currency, capMinor, operator, reason });
      if (done === 'raised') return null;
      return done === 'noCap'
        ? invalid('currency', `the key has no cap in ${currency}`)
        : invalid('max_amount', 'a cap is only ever raised: it is as high already');
    }
    case 'extend': {
      const { expiresAt } = change;
      if (await extendExpiry(db, { keyId, expiresAt, operator, reason })) return null;
      return invalid('expires_at', 'a key is only ever extended: it expires later already');
    }
    default:
      return assertNever(change);
  }
}

function invalid(param: string, said: string): BodyProblem {
  return { code: 'parameter_invalid', param, message: `${param}: ${said}` };
}

/** A key that was there a moment ago: keys are never deleted. */
async function reread(db: Db, keyId: string): Promise<VaultKey> {
  const key = await findVaultKey(db, keyId);
  if (key === null) throw new Error(`vault key ${keyId} is gone`);
  return key;
}

async function answerOf({ db, now }: AdminDeps, key: VaultKey): Promise<KeyAnswer> {
  return keyAnswer(key, await readBudgets(db, key.keyId), now());
}

function badBody(reply: FastifyReply, problem: BodyProblem): FastifyReply {
  return vaultError(reply, { status: 400, ...problem });
}

function unknownKey(reply: FastifyReply): FastifyReply {
  const message = 'no vault key has this id: 16 hex digits, the part of the key after its mode';
  return vaultError(reply, { status: 404, code: 'vault_key_unknown', message });
}

function revokedKey(reply: FastifyReply): FastifyReply {
  const message = 'a revoked key stays revoked; make a new one';
  return vaultError(reply, { status: 409, code: 'vault_key_revoked', message });
}
