import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify';
import { bareApp } from '../bare-app.ts';
import type { Db } from '../db/database.ts';
import { readDrift } from '../db/vault-drift.ts';
import { keysEqual } from '../vault-key.ts';
import type { Log } from '../log.ts';
import { registerKeyRoutes } from './admin-keys.ts';
import { registerRunRoutes } from './admin-runs.ts';
import { vaultError } from './admin-error.ts';

export interface AdminDeps {
  readonly db: Db;
  readonly log: Log;
  /** what the vault's own Stripe key bills */
  readonly account: string;
  readonly liveMode: boolean;
  readonly adminToken: string;
  /** null: no billing run uses this vault */
  readonly runToken: string | null;
  readonly now: () => Date;
  /** the metrics of this process and the sums of the database, as Prometheus reads them */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly sweep: () => Promise<object>;
}

/** A sweep that was asked for looks at thousands of reservations before it answers. */
const SOCKET_TIMEOUT_MS = 120_000;
const SOCKETS = 128;
/** The largest order names fifty endpoints. */
const BODY_LIMIT_BYTES = 64 * 1024;

/** Who may call a route: everything is for the admin; workers may open and close their run, and ask for the account. */
type Role = 'admin' | 'run';

/**
 * The admin API, not listening yet. Every route but the two health checks wants a token, and so does every path that
 * does not exist. Errors have one shape: `{error: {type: 'vault_error', code, param?, message}}`.
 */
export function buildAdminApp(deps: AdminDeps): FastifyInstance {
  const app = bareApp({
    bodyBytes: BODY_LIMIT_BYTES,
    socketTimeoutMs: SOCKET_TIMEOUT_MS,
    sockets: SOCKETS,
    routerOptions: { maxParamLength: 100 },
  });
  answerErrors(app, deps);
  registerHealth(app, deps.db);
  app.addHook('onRequest', async (request, reply) => {
    const { open = false, role = 'admin' } = request.routeOptions.config;
    if (open || isAllowed(deps, request.headers.authorization, role)) return;
    reply.header('WWW-Authenticate', 'Bearer realm="chargeonce vault admin"');
    return vaultError(reply, {
      status: 401,
      code: 'token_wrong',
      message:
        role === 'run'
          ? 'send Authorization: Bearer with VAULT_RUN_TOKEN or VAULT_ADMIN_TOKEN of this vault'
          : 'send Authorization: Bearer with VAULT_ADMIN_TOKEN of this vault',
    });
  });
  registerKeyRoutes(app, deps);
  registerRunRoutes(app, deps);
  app.post('/vault/sweep', async () => deps.sweep());
  app.get('/vault/drift', async () => readDrift(deps.db));
  app.get('/metrics', async (_request, reply) => {
    const { contentType, text } = await deps.metrics();
    return reply.type(contentType).send(text);
  });
  return app;
}

/** Both tokens are compared whatever comes, so that the time says nothing of either. */
function isAllowed(deps: AdminDeps, header: string | undefined, role: Role): boolean {
  const token = /^Bearer ([\x21-\x7E]+)$/i.exec(header ?? '')?.[1] ?? '';
  const admin = keysEqual(token, deps.adminToken);
  const run = keysEqual(token, deps.runToken ?? '') && deps.runToken !== null;
  return admin || (role === 'run' && run);
}

function answerErrors(app: FastifyInstance, { log }: AdminDeps): void {
  app.setNotFoundHandler((request, reply) =>
    vaultError(reply, {
      status: 404,
      code: 'route_unknown',
      message: `the admin API has no ${request.method} for this path`,
    }),
  );
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const status = error.statusCode ?? 500;
    if (status >= 400 && status < 500) return vaultError(reply, clientError(error, status));
    log.error({ err: error, route: request.routeOptions.url }, 'an admin request failed');
    const message =
      'the vault cannot answer now, and its log says why; look at what is there before you ask again';
    return vaultError(reply, { status: 503, code: 'vault_unavailable', message });
  });
}

/** What Fastify refuses before a route is asked: bodies that are too large, no JSON, or of another type. */
function clientError(error: FastifyError, status: number) {
  if (error.code === 'FST_ERR_BAD_URL') {
    return { status, code: 'route_unknown', message: 'the path cannot be read' };
  }
  const messages: Readonly<Record<number, string>> = {
    413: `a body has at most ${BODY_LIMIT_BYTES} bytes`,
    415: 'send the body as Content-Type: application/json',
  };
  const message = messages[status] ?? 'the body is not JSON that can be read';
  return { status, code: 'body_invalid', message };
}

/** `/healthz`: the process answers. `/readyz`: its database does too. Both change nothing and want no token. */
function registerHealth(app: FastifyInstance, db: Db): void {
  const config = { open: true };
  app.get('/healthz', { config }, () => ({ ok: true }));
  app.get('/readyz', { config }, async (_request, reply) => isReady(db, reply));
}

async function isReady(db: Db, reply: FastifyReply): Promise<object> {
  try {
    await db.selectFrom('vault_keys').select('key_id').limit(1).execute();
    return { ok: true };
  } catch {
    return reply.code(503).send({ ok: false });
  }
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** no token is asked for */
    readonly open?: boolean;
    /** who may call it; the admin unless it says otherwise */
    readonly role?: Role;
  }
}
