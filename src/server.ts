import type { ConnectionOptions } from '@temporalio/client';
import { RunClient } from './client.ts';
import { openDatabase, type Db } from './db/database.ts';
import { requireEnvironment } from './db/environment.ts';
import { buildApp } from './http/build-app.ts';
import { startWebhookProcessor, type Look } from './http/webhooks/process.ts';
import { drainApp, portOf, urlOf } from './listening.ts';
import type { Log } from './log.ts';
import { readStripeWebhook } from './payments/stripe-webhook.ts';
import { openProvider, type ProviderOptions } from './provider.ts';
import type { Secret } from './secret.ts';
import { runAll, type Undo } from './undo.ts';

export interface ServerOptions extends ProviderOptions {
  readonly databaseUrl: Secret;
  readonly temporal: { readonly connection: ConnectionOptions; readonly namespace: string };
  /** any of them may have signed an event: two during a rotation. None: webhooks are refused */
  readonly webhookSecrets: readonly Secret[];
  readonly host: string;
  /** 0 takes any free one */
  readonly port: number;
  readonly log: Log;
}

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /** Takes no new requests, answers those under way, then stops. Twice waits for the same end. */
  shutdown(): Promise<void>;
}

/** A batch of events, requests that store one, and the health check. */
const DATABASE_POOL = 12;
/** Requests under way end within this; then their sockets are cut. */
const DRAIN_MS = 8_000;

/**
 * Starts the HTTP server and the processor of Stripe's events. Refuses to start when the database
 * is bound to another Stripe account, mode or place. Several servers at once share the work.
 */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { log } = options;
  const database = openDatabase({
    url: options.databaseUrl.reveal(),
    applicationName: 'chargeonce server',
    poolSize: DATABASE_POOL,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
  });
  const undo: Undo = [() => database.close()];
  try {
    const { db } = database;
    const { account, apiVersion } = await ownAccount(options, db);
    const liveMode = options.mode === 'live';
    // Binds nothing: that is for the worker, which charges.
    await requireEnvironment(db, { account, liveMode });
    const temporal = lazyClient(options.temporal);
    undo.push(() => temporal.close());
    const processor = startWebhookProcessor({ db, look: temporal.look, log });
    undo.push(() => processor.stop());
    const secrets = options.webhookSecrets.map((secret) => secret.reveal());
    const app = buildApp({
      db,
      log,
      stripeWebhook: {
        db,
        read: secrets.length === 0 ? null : (signed) => readStripeWebhook(secrets, signed),
        account,
        liveMode,
        apiVersion,
        onStored: () => processor.wake(),
      },
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

async function ownAccount(options: ServerOptions, db: Db) {
  const provider = openProvider(options, db);
  try {
    return { account: await provider.account(), apiVersion: provider.gateway.apiVersion };
  } finally {
    provider.close();
  }
}

/**
 * Temporal is needed to look, not to receive: while it is away events are stored, and the first look
 * after it is back connects.
 */
function lazyClient(temporal: ServerOptions['temporal']): { look: Look; close(): Promise<void> } {
  let connecting: Promise<RunClient> | undefined;
  const connect = async (): Promise<RunClient> => {
    connecting ??= RunClient.connect(temporal);
    try {
      return await connecting;
    } catch (error) {
      connecting = undefined;
      throw error;
    }
  };
  return {
    look: async (slot) => (await connect()).lookAtCustomer(slot),
    async close() {
      await (await connecting?.catch(() => undefined))?.close();
    },
  };
}
