import type { ConnectionOptions } from '@temporalio/client';
import { RunClient } from './client.ts';
import { openDatabase, type Database } from './db/database.ts';
import { requireEnvironment } from './db/environment.ts';
import { queryable } from './db/queryable.ts';
import type { VaultAdminAccess } from './http/api/deps.ts';
import type { ApiLimits, ApiOptions } from './http/api/register-api.ts';
import { buildApp } from './http/build-app.ts';
import { PostgresIdempotencyStore } from './http/idempotency/index.ts';
import { httpMetrics } from './http/metrics.ts';
import { startWebhookProcessor, type Look } from './http/webhooks/process.ts';
import { drainApp, portOf, urlOf } from './listening.ts';
import type { Log } from './log.ts';
import { readStripeWebhook } from './payments/stripe-webhook.ts';
import { openProvider, type Provider, type ProviderOptions } from './provider.ts';
import type { Secret } from './secret.ts';
import { runAll, type Undo } from './undo.ts';

export interface ServerOptions extends ProviderOptions {
  readonly databaseUrl: Secret;
  readonly temporal: { readonly connection: ConnectionOptions; readonly namespace: string };
  /** any of them may have signed an event: two during a rotation. None: webhooks are refused */
  readonly webhookSecrets: readonly Secret[];
  /** absent: webhooks only */
  readonly api?: OperatorApi;
  readonly host: string;
  /** 0 takes any free one */
  readonly port: number;
  readonly log: Log;
}

/** What the operator API needs to know of the configuration. */
interface OperatorApi {
  /** BILLING_ZONE */
  readonly zone: string;
  /** RESOLVE_APPROVERS */
  readonly resolveApprovers: number;
  /** null: keys of the vault cannot be managed through this server */
  readonly vaultAdmin: VaultAdminAccess | null;
  readonly temporalUiUrl: string | null;
  readonly limits?: Partial<ApiLimits>;
  /** how long a crashed server keeps its Idempotency-Keys; milliseconds */
  readonly leaseMs?: number;
}

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /** Takes no new requests, answers those under way, then stops. Twice waits for the same end. */
  shutdown(): Promise<void>;
}

/** A batch of events, requests that store one, the API and the health check. */
const DATABASE_POOL = 12;
/**
 * Two short commits of each request with a key. More connections are faster (docs/testing.md, 32), but operators send few
 * orders, and three servers have to fit beside the workers into one PostgreSQL of 100.
 */
const IDEMPOTENCY_POOL = 12;
/** Requests under way end within this; then their sockets are cut. */
const DRAIN_MS = 8_000;
const CONNECT_TIMEOUT_MS = 3_000;
/** One cheap question to Temporal, for the health check. */
const ASK_TIMEOUT_MS = 2_000;

/**
 * Starts the HTTP server and the processor of Stripe's events. Refuses to start when the database
 * is bound to another Stripe account, mode or place. Several servers at once share the work.
 */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { log } = options;
  const undo: Undo = [];
  try {
    const { db } = open(options, undo, { poolSize: DATABASE_POOL });
    const provider = openProvider(options, db);
    undo.push(async () => provider.close());
    const account = await provider.account();
    const liveMode = options.mode === 'live';
    // Binds nothing: that is for the worker, which charges.
    await requireEnvironment(db, { account, liveMode });
    const temporal = lazyClient(options.temporal);
    undo.push(() => temporal.close());
    const processor = startWebhookProcessor({ db, look: temporal.look, log });
    undo.push(() => processor.stop());
    const secrets = options.webhookSecrets.map((secret) => secret.reveal());
    const world = { db, provider, account, temporal: temporal.connect };
    const app = buildApp({
      db,
      log,
      stripeWebhook: {
        db,
        read: secrets.length === 0 ? null : (signed) => readStripeWebhook(secrets, signed),
        account,
        liveMode,
        apiVersion: provider.gateway.apiVersion,
        onStored: () => processor.wake(),
      },
      ...(options.api === undefined
        ? {}
        : {
            api: apiOf(options, options.api, { ...world, undo }),
            temporalAnswers: temporal.answers,
          }),
    });
    undo.push(() => drainApp(app, DRAIN_MS));
    await app.listen({ host: options.host, port: options.port });
    const port = portOf(app.server.address());
    let stopped: Promise<void> | undefined;
    return {
      url: urlOf(options.host, port),
      port,
      shutdown: () => (stopped ??= runAll(undo)),
    };
  } catch (error) {
    await runAll(undo);
    throw error;
  }
}

function open(
  { databaseUrl, log }: ServerOptions,
  undo: Undo,
  pool: { readonly poolSize: number; readonly prepare?: boolean },
): Database {
  const database = openDatabase({
    url: databaseUrl.reveal(),
    applicationName: 'chargeonce server',
    ...pool,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
  });
  undo.push(() => database.close());
  return database;
}

interface World extends Pick<ApiOptions, 'db' | 'account' | 'temporal'> {
  readonly provider: Provider;
  readonly undo: Undo;
}

function apiOf(options: ServerOptions, api: OperatorApi, world: World): ApiOptions {
  const { db, account, temporal, provider, undo } = world;
  const { log, mode } = options;
  const { zone, resolveApprovers, vaultAdmin, temporalUiUrl, limits, leaseMs } = api;
  const keys = open(options, undo, { poolSize: IDEMPOTENCY_POOL, prepare: true });
  return {
    db,
    temporal,
    log,
    mode,
    account,
    vaultAdmin,
    gatewayOf: (run) => provider.vault?.gatewayOf(run) ?? provider.gateway,
    temporalUiUrl,
    temporalNamespace: options.temporal.namespace,
    zone,
    resolveApprovers,
    now: () => new Date(),
    metrics: httpMetrics(),
    idempotency: {
      store: new PostgresIdempotencyStore(queryable(keys.db)),
      ...(leaseMs === undefined ? {} : { leaseMs }),
    },
    ...(limits === undefined ? {} : { limits }),
  };
}

/**
 * Temporal is needed to look and to order, not to receive: while it is away events are stored, and the first who needs
 * it after it is back connects.
 */
function lazyClient(temporal: ServerOptions['temporal']): {
  readonly connect: () => Promise<RunClient>;
  readonly look: Look;
  /** Whether it answers now. */
  readonly answers: () => Promise<boolean>;
  close(): Promise<void>;
} {
  // Whoever waits for it is a request.
  const connection = { connectTimeout: CONNECT_TIMEOUT_MS, ...temporal.connection };
  let connecting: Promise<RunClient> | undefined;
  const connect = async (): Promise<RunClient> => {
    connecting ??= RunClient.connect({ ...temporal, connection });
    try {
      return await connecting;
    } catch (error) {
      connecting = undefined;
      throw error;
    }
  };
  return {
    connect,
    look: async (slot) => (await connect()).lookAtCustomer(slot),
    async answers() {
      try {
        const { temporal: client } = await connect();
        await client.withDeadline(Date.now() + ASK_TIMEOUT_MS, () =>
          client.workflowService.getSystemInfo({}),
        );
        return true;
      } catch {
        return false;
      }
    },
    async close() {
      await (await connecting?.catch(() => undefined))?.close();
    },
  };
}
