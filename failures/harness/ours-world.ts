import { RunClient } from '../../src/client.ts';
import { openDatabase, type Database } from '../../src/db/database.ts';
import { parseBillingPeriod } from '../../src/domain/billing-period.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { parseBillingNamespace } from '../../src/domain/namespace.ts';
import { createLogger } from '../../src/log.ts';
import { Secret } from '../../src/secret.ts';
import { startServer, type RunningServer, type ServerOptions } from '../../src/server.ts';
import type { Simulator } from '../../src/simulator/index.ts';
import { startVault, type RunningVault, type VaultOptions } from '../../src/vault.ts';
import { startWorker, type RunningWorker, type WorkerOptions } from '../../src/worker.ts';
import type { Shop } from './exhibit.ts';
import type { House } from './house.ts';
import { startWireServer, type WireScript, type WireServer } from './wire-server.ts';

/** The same shop with chargeonce: its database, its Temporal, and the same Stripe and network as the tempting code has. */
export interface OursWorld extends Shop {
  readonly stripe: Simulator;
  readonly house: House;
  readonly database: Database;
  readonly databaseUrl: string;
  readonly client: RunClient;
  readonly run: RunRef;
  /** Starts the period's run with one worker and waits for its end: the usual way to bill. */
  bill(): Promise<unknown>;
  /** One more worker's worth of workers, in this process. */
  addWorker(options?: Partial<WorkerOptions>): Promise<RunningWorker>;
  /** One more server with the operator API, in this process. A worker has to have been there before. */
  addServer(options?: Partial<ServerOptions>): Promise<RunningServer>;
  /** A vault in front of Stripe; it alone has the key then. */
  addVault(options?: Partial<VaultOptions>): Promise<RunningVault>;
  /** A network in front of Stripe; workers that are added afterwards go through it. */
  wire(script: WireScript): Promise<WireServer>;
  /** Ends something that the exhibit has opened when the exhibit is over, in reverse order. */
  defer(end: () => Promise<unknown>): void;
}

export interface OursParts {
  readonly shop: Shop;
  readonly stripe: Simulator;
  readonly house: House;
  readonly undo: (() => Promise<void>)[];
}

/** Settle pauses of moments instead of minutes: a simulator knows the truth at once. */
const PAUSES_MS = [200, 400, 800, 1_500, 3_000];
const ABSENCE_QUIET_MS = 500;
const STRIPE_TIMEOUT_MS = 4_000;
export const ADMIN_TOKEN = new Secret(`vat_${'a'.repeat(64)}`);
const RUN_TOKEN = new Secret(`vrt_${'b'.repeat(64)}`);

/** Puts the shop's customers into a database of ours, and connects. Nothing is billed yet. */
export async function oursWorld({ shop, stripe, house, undo }: OursParts): Promise<OursWorld> {
  const { platform } = house;
  const { temporal } = platform;
  if (temporal === null) throw new TypeError('the house has no Temporal');
  const databaseUrl = await house.migratedDatabase();
  const database = openDatabase({
    url: databaseUrl,
    applicationName: 'chargeonce exhibit',
    onError: () => {},
  });
  undo.push(() => database.close());
  const client = await RunClient.connect(temporal);
  undo.push(() => client.close());
  await insertCustomers(database, shop);
  const run = runOf(shop);
  let stripeUrl = shop.stripeUrl;
  const stripeAccess = () => ({
    apiKey: new Secret(shop.apiKey),
    apiBase: stripeUrl,
    timeoutMs: STRIPE_TIMEOUT_MS,
  });
  const addWorker: OursWorld['addWorker'] = async (options = {}) => {
    const worker = await startWorker({
      databaseUrl: new Secret(databaseUrl),
      temporal,
      stripe: stripeAccess(),
      vault: undefined,
      mode: 'test',
      chargesPerSecond: 0,
      reconcilePausesMs: PAUSES_MS,
      absenceQuietMs: ABSENCE_QUIET_MS,
      maxCachedWorkflows: 200,
      onDatabaseError: () => {},
      cacheDir: platform.config.CHARGEONCE_CACHE,
      ...options,
    });
    undo.push(() => worker.shutdown());
    return worker;
  };
  return {
    ...shop,
    stripe,
    house,
    database,
    databaseUrl,
    client,
    run,
    addWorker,
    async bill() {
      await addWorker();
      await client.startRun(run, 'gallery');
      return client.run(run).result();
    },
    async addVault(options = {}) {
      const vault = await startVault({
        databaseUrl: new Secret(databaseUrl),
        stripe: stripeAccess(),
        mode: 'test',
        absenceQuietMs: ABSENCE_QUIET_MS,
        adminToken: ADMIN_TOKEN,
        runToken: RUN_TOKEN,
        alerts: { webhook: null, slackUrl: null },
        proxy: { host: '127.0.0.1', port: 0 },
        admin: { host: '127.0.0.1', port: 0 },
        log: createLogger('error'),
        ...options,
      });
      undo.push(() => vault.shutdown());
      return vault;
    },
    async addServer(options = {}) {
      const server = await startServer({
        databaseUrl: new Secret(databaseUrl),
        temporal,
        stripe: stripeAccess(),
        vault: undefined,
        mode: 'test',
        webhookSecrets: [],
        api: { zone: 'UTC', resolveApprovers: 1, vaultAdmin: null, temporalUiUrl: null },
        host: '127.0.0.1',
        port: 0,
        log: createLogger('error'),
        ...options,
      });
      undo.push(() => server.shutdown());
      return server;
    },
    async wire(script) {
      const server = await startWireServer(script, shop.stripeUrl);
      undo.push(() => server.close());
      stripeUrl = server.url;
      return server;
    },
    defer: (end) => undo.push(async () => void (await end())),
  };
}

function runOf(shop: Shop): RunRef {
  const period = parseBillingPeriod(shop.period);
  const namespace = parseBillingNamespace('base');
  if (!period.ok || !namespace.ok) throw new TypeError(`${shop.period} is no period`);
  return { period: period.period, namespace: namespace.namespace };
}

async function insertCustomers({ db }: Database, { customers }: Shop): Promise<void> {
  await db
    .insertInto('customers')
    .values(
      customers.map((customer) => ({
        customer_id: customer.id,
        stripe_customer_id: customer.stripeCustomer,
        payment_method_id: customer.paymentMethod,
        amount_minor: customer.amountMinor,
        currency: customer.currency,
      })),
    )
    .execute();
}
