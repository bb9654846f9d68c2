import { loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';
import { RunClient } from '../client.ts';
import { usesSimulator, type Config } from '../config.ts';
import { openDatabase, type Database } from '../db/database.ts';
import { migrate, pendingMigrations } from '../db/migrate.ts';
import { leaseStack, type PartRequest, type StackLease } from '../embedded/stack.ts';
import { Secret } from '../secret.ts';
import { runAll, type Undo } from '../undo.ts';
import { temporalPlace } from '../client/temporal-place.ts';
import { billerOf, type Biller } from './biller.ts';
import { requireOwnAccount, requireOwnEnvironment } from './account-check.ts';
import { CommandError, EXIT } from './exit-codes.ts';
import { hasPollers } from '../client/pollers.ts';
import { serverPart, simulatorPart, workerPart } from './parts.ts';
import { embeddedVault, VAULT_PART, wantsEmbeddedVault } from './vault-part.ts';
import { subscribeToSimulator, webhookSecretsOf } from './simulator-webhooks.ts';

/** The parts a command works with. What is neither configured nor running is brought up for its duration. */
export interface Needs {
  readonly temporal?: boolean;
  readonly stripe?: boolean;
  readonly worker?: boolean;
  /** beside an embedded worker: the operator API, and webhooks when there is somebody who sends them */
  readonly server?: boolean;
  /** the key may be of another account than the database: the command is about just that */
  readonly anyAccount?: boolean;
  /** a process that stays: its vault may be starting beside it */
  readonly waitsForVault?: boolean;
}

export interface TemporalAccess {
  /** fits the client's connection and the worker's */
  readonly connection: NativeConnectionOptions;
  readonly namespace: string;
}

/** A command's world: addresses of all parts it asked for, and connections that {@link close} ends. */
export interface Platform {
  readonly config: Config;
  readonly databaseUrl: Secret;
  readonly database: Database;
  readonly temporal: TemporalAccess | null;
  /** who bills; null when neither Stripe nor a worker was asked for */
  readonly biller: Biller | null;
  readonly temporalUiUrl: string | null;
  readonly simulatorUrl: string | null;
  /** of the embedded server, once it is up */
  serverUrl(): string | null;
  readonly lease: StackLease | null;
  /** A client to Temporal, connected at the first call. */
  client(): Promise<RunClient>;
  close(): Promise<void>;
}

export interface PlatformOptions {
  readonly config: Config;
  /** the process's environment: Temporal's own variables, and what embedded parts inherit */
  readonly env: NodeJS.ProcessEnv;
  readonly needs: Needs;
  readonly note: (message: string) => void;
  /** environment for an embedded worker beyond the configuration's own */
  readonly workerEnv?: Readonly<Record<string, string>>;
  /** flags of an embedded simulator */
  readonly simulatorArgs?: readonly string[];
  /** nothing configured is used, not even a Temporal profile on disk: for the demo and the bench */
  readonly embeddedOnly?: boolean;
}

/** Brings up what the command needs and connects to it. On failure everything is given back. */
export async function openPlatform(options: PlatformOptions): Promise<Platform> {
  const { config, needs } = options;
  const undo: Undo = [];
  try {
    const profile = options.embeddedOnly === true ? null : temporalAccess(options.env);
    const lease = await leaseParts(options, baseParts(options, profile));
    if (lease !== null) undo.push(() => lease.release());
    const databaseUrl = config.DATABASE_URL ?? new Secret(endpoint(lease, 'databaseUrl'));
    await prepareSchema(databaseUrl, config.DATABASE_URL === undefined, options.note);
    const database = openDatabase({
      url: databaseUrl.reveal(),
      applicationName: 'chargeonce cli',
      poolSize: 4,
      onError: () => {},
    });
    undo.push(() => database.close());
    const temporal = needs.temporal === true ? (profile ?? embeddedTemporal(lease)) : null;
    const asks = needs.stripe === true || needs.worker === true;
    const biller = asks ? billerOf(config, lease, database.db) : null;
    if (biller !== null) undo.push(async () => biller.vault?.access.close());
    if (biller !== null && needs.anyAccount !== true)
      await requireOwnAccount(database.db, biller, needs.waitsForVault === true);
    let connected: Promise<RunClient> | null = null;
    const platform: Platform = {
      config,
      databaseUrl,
      database,
      temporal,
      biller,
      temporalUiUrl: lease?.endpoints.temporalUiUrl ?? null,
      simulatorUrl: lease?.endpoints.simulatorUrl ?? null,
      // Comes with the worker, which needs this platform.
      serverUrl: () => lease?.endpoints.serverUrl ?? null,
      lease,
      client: () => (connected ??= connect(temporal)),
      async close() {
        if (connected !== null) await connected.then((client) => client.close()).catch(() => {});
        await runAll(undo);
      },
    };
    if (needs.worker === true) {
      await requireBillable(platform);
      await ensureWorker(platform, options, profile !== null);
    }
    return platform;
  } catch (error) {
    await runAll(undo);
    throw error;
  }
}

/** Temporal's standard profile and variables, or null when none names an address. */
export function temporalAccess(env: NodeJS.ProcessEnv): TemporalAccess | null {
  const profile = loadClientConfigProfile({
    overrideEnvVars: definedOnly(env),
    // An empty file is an error to the library; /dev/null is how one says "no file" to it.
    disableFile: env['TEMPORAL_CONFIG_FILE'] === '/dev/null',
  });
  if (profile.address === undefined) return null;
  const { connectionOptions, namespace } = toClientOptions(profile);
  return { connection: connectionOptions, namespace: namespace ?? 'default' };
}

function definedOnly(env: NodeJS.ProcessEnv): Record<string, string> {
  const defined: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) if (value !== undefined) defined[name] = value;
  return defined;
}

function baseParts(options: PlatformOptions, profile: TemporalAccess | null): PartRequest[] {
  const { config, needs } = options;
  const parts: PartRequest[] = [];
  if (config.DATABASE_URL === undefined) {
    const port = config.POSTGRES_PORT;
    parts.push({ kind: 'postgres', ...(port === undefined ? {} : { port }) });
  }
  if (needs.temporal === true && profile === null) {
    parts.push({
      kind: 'temporal',
      ...(config.TEMPORAL_PORT === undefined ? {} : { port: config.TEMPORAL_PORT }),
      ...(config.TEMPORAL_UI_PORT === undefined ? {} : { uiPort: config.TEMPORAL_UI_PORT }),
    });
  }
  const asks = needs.stripe === true || needs.worker === true;
  if (asks && usesSimulator(config)) {
    parts.push(simulatorPart(config, options.simulatorArgs ?? []));
  }
  return parts;
}

async function leaseParts(
  options: PlatformOptions,
  parts: readonly PartRequest[],
): Promise<StackLease | null> {
  if (parts.length === 0 && options.needs.worker !== true) return null;
  try {
    return await leaseStack({
      home: options.config.CHARGEONCE_HOME,
      cacheDir: options.config.CHARGEONCE_CACHE,
      temporalCliPath: options.config.TEMPORAL_CLI_PATH,
      sources: options.config.TEMPORAL_SOURCES,
      env: options.env,
      parts,
      onProgress: options.note,
      onPart: (event) => options.note(event.message),
    });
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new CommandError(EXIT.unavailable, said, error);
  }
}

function endpoint(lease: StackLease | null, name: 'databaseUrl' | 'temporalAddress'): string {
  const value = lease?.endpoints[name];
  if (value === undefined) throw new Error(`the embedded stack gave no ${name}`);
  return value;
}

function embeddedTemporal(lease: StackLease | null): TemporalAccess {
  return { connection: { address: endpoint(lease, 'temporalAddress') }, namespace: 'default' };
}

/** Our own database is always brought up to date; a configured one only by `chargeonce setup`. */
async function prepareSchema(
  url: Secret,
  embedded: boolean,
  note: (message: string) => void,
): Promise<void> {
  try {
    if (embedded) {
      const applied = await migrate(url.reveal());
      if (applied.length > 0) note(`database: ${applied.length} migrations applied`);
      return;
    }
    const pending = await pendingMigrations(url.reveal());
    if (pending.length === 0) return;
    throw new CommandError(
      EXIT.unavailable,
      `the database lacks ${pending.length} migrations (${pending.join(', ')}): run "chargeonce setup" first`,
    );
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const { host } = new URL(url.reveal());
    const said = error instanceof Error ? error.message || error.name : String(error);
    throw new CommandError(
      EXIT.unavailable,
      `PostgreSQL at ${host} cannot be used: ${said}. Check DATABASE_URL, or unset it for the embedded one`,
      error,
    );
  }
}

async function connect(temporal: TemporalAccess | null): Promise<RunClient> {
  if (temporal === null) throw new Error('this command did not ask for Temporal');
  try {
    return await RunClient.connect(temporal);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new CommandError(
      EXIT.unavailable,
      `Temporal at ${temporal.connection.address ?? 'the configured address'} cannot be reached: ${said}. ` +
        'Check TEMPORAL_ADDRESS or the profile, or unset it for the embedded server',
      error,
    );
  }
}

/** A copied database, or another Temporal, is refused here in our words; the worker would refuse it as well. */
async function requireBillable(platform: Platform): Promise<void> {
  const { database, biller, temporal } = platform;
  if (biller === null || temporal === null) return;
  const { workflowService } = (await platform.client()).temporal;
  const place = await temporalPlace(workflowService, temporal.namespace);
  await requireOwnEnvironment(database.db, biller, place);
}

/**
 * Starts an embedded worker unless somebody already polls a configured Temporal. On the embedded
 * server the worker is a shared part like the others, and so is the vault before it.
 */
async function ensureWorker(
  platform: Platform,
  options: PlatformOptions,
  configured: boolean,
): Promise<void> {
  const { lease, temporal, biller } = platform;
  if (lease === null || temporal === null || biller === null) return;
  if (configured && (await hasPollers(await platform.client()))) return;
  if (configured)
    options.note('no worker polls the task queues: one runs here until this command ends');
  const [secret] = webhookSecretsOf(options.config);
  const withServer = options.needs.server === true;
  try {
    const own = await vaultBefore(platform, biller);
    const vault = own?.settings ?? biller.vault?.settings ?? null;
    const from = {
      platform,
      vault,
      adminToken: own?.adminToken ?? null,
      env: options.env,
      extra: options.workerEnv ?? {},
    };
    const parts = [workerPart(from), ...(withServer ? [serverPart(from)] : [])];
    // Side by side: both wait for the vault's first answer.
    const callers = parts.map((part) => ({ ...part, calls: VAULT_PART }));
    await lease.ensure(own === null ? parts : [own.part, ...callers]);
    const { simulatorUrl, serverUrl } = lease.endpoints;
    if (simulatorUrl !== undefined && serverUrl !== undefined && secret !== undefined)
      await subscribeToSimulator({ simulatorUrl, serverUrl, secret });
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const said = error instanceof Error ? error.message : String(error);
    throw new CommandError(EXIT.unavailable, said, error);
  }
}

/** A vault of the home's own, unless one is configured or it is switched off. */
async function vaultBefore({ config, databaseUrl }: Platform, { stripe, vault }: Biller) {
  if (stripe === null || vault !== null || !wantsEmbeddedVault(config)) return null;
  return await embeddedVault({ config, stripe, databaseUrl });
}
