import { openDatabase, type Database } from './db/database.ts';
import { requireEnvironment } from './db/environment.ts';
import { readNotableUses } from './db/vault-alerts.ts';
import { readDrift } from './db/vault-drift.ts';
import { findVaultKey } from './db/vault-keys.ts';
import { drainApp, portOf, urlOf } from './listening.ts';
import { redact, type Log } from './log.ts';
import type { Secret } from './secret.ts';
import { runAll, type Undo } from './undo.ts';
import { keysEqual } from './vault-key.ts';
import { buildAdminApp } from './vault/admin-api.ts';
import { alertOf, alertsOfUse, driftAlert } from './vault/alert-rules.ts';
import { startAlerts, type Alerts } from './vault/alerts.ts';
import type { OnVaultEvent, VaultEvent } from './vault/events.ts';
import { logEvent } from './vault/event-log.ts';
import { Forwarder } from './vault/forward.ts';
import { vaultMetrics, type VaultMetrics } from './vault/metrics.ts';
import { startProxy } from './vault/proxy-server.ts';
import { startRounds } from './vault/rounds.ts';
import { sweepReservations } from './vault/sweep.ts';
import { createUpstream, type Upstream } from './vault/upstream.ts';

export interface VaultOptions {
  readonly databaseUrl: Secret;
  readonly stripe: {
    readonly apiKey: Secret;
    /** Stripe unless set */
    readonly apiBase?: string | undefined;
    /** for keys that may not read their own account */
    readonly accountId?: string | undefined;
    readonly timeoutMs: number;
  };
  readonly mode: 'test' | 'live';
  /** how long Stripe has to show nothing before the sum of a lost create is given back */
  readonly absenceQuietMs: number;
  /** makes, raises and revokes keys */
  readonly adminToken: Secret | undefined;
  /** shared with the workers; without it no billing run uses this vault */
  readonly runToken: Secret | undefined;
  readonly alerts: {
    readonly webhook: { readonly url: Secret; readonly secret: Secret } | null;
    readonly slackUrl: Secret | null;
  };
  /** port 0 takes any free one */
  readonly proxy: { readonly host: string; readonly port: number };
  readonly admin: { readonly host: string; readonly port: number };
  readonly log: Log;
  /** pauses of the work in the background; tests make them shorter */
  readonly pauses?: Partial<typeof PAUSES>;
}

export interface RunningVault {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  readonly proxyPort: number;
  readonly adminPort: number;
  readonly account: string;
  /** Takes no new requests, waits for the answers of those under way and writes them down. Twice waits for the same end. */
  shutdown(): Promise<void>;
}

/** The vault was not started: a setting is missing or dangerous. The message says which and what to do. */
export class VaultRefusesToStart extends Error {
  override readonly name = 'VaultRefusesToStart';
}

/** The vault was not started: Stripe cannot be asked whom its key bills. The same again may help. */
export class StripeAway extends Error {
  override readonly name = 'StripeAway';
}

const STRIPE = 'https://api.stripe.com';
/** Every forwarded request has two short commits; more at once would only wait for the same window. */
const DATABASE_POOL = 16;
const MIN_TOKEN_LENGTH = 32;
/** Beyond the time-out of the answer that a request under way waits for. */
const DRAIN_MARGIN_MS = 5_000;
/** An admin request is a statement or two; a sweep under way is cut, and the next start goes on with it. */
const ADMIN_DRAIN_MS = 8_000;
const ROUND_DRAIN_MS = 5_000;

const PAUSES = {
  /** reservations whose outcome is open are due minutes after their last send */
  sweepMs: 30_000,
  /** reads every row of the vault */
  driftMs: 60 * 60_000,
  /** alerts that another process left */
  alertsMs: 5_000,
};

/**
 * Starts the vault: the proxy that clients use as Stripe, the admin API, the sweep of open reservations and the
 * delivery of alerts. Several at once on one database are one vault: no process has a count of its own.
 */
export async function startVault(options: VaultOptions): Promise<RunningVault> {
  const tokens = checkSettings(options);
  const undo: Undo = [];
  try {
    const world = await openWorld(options, undo);
    const { db, upstream, own } = world;
    const watch = startWatch(options, world, undo);
    const { onEvent, metrics } = watch;
    // A send may be under way for as long as its time-out: until then "not there" says nothing.
    const quietMs = Math.max(options.absenceQuietMs, 2 * options.stripe.timeoutMs);
    const looks = { db, upstream, ...own, quietMs, onEvent };
    const sweep = (force: boolean) => sweepReservations(looks, { force });
    startBackground(options, { db, watch, sweep, undo });
    const app = buildAdminApp({
      db,
      log: options.log,
      ...own,
      ...tokens,
      now,
      metrics: () => metrics.render(),
      sweep: () => sweep(true),
    });
    undo.push(() => drainApp(app, ADMIN_DRAIN_MS));
    await app.listen(options.admin);
    const adminPort = portOf(app.server.address());
    const secret = options.stripe.apiKey;
    const findKey = (keyId: string) => findVaultKey(db, keyId);
    const forwarder = new Forwarder({ db, findKey, ...own, upstream, secret, onEvent });
    const proxy = await startProxy({ ...options.proxy, forwarder, onEvent });
    undo.push(() => proxy.close(options.stripe.timeoutMs + DRAIN_MARGIN_MS));
    let stopped: Promise<void> | undefined;
    return {
      proxyUrl: proxy.url,
      adminUrl: urlOf(options.admin.host, adminPort),
      proxyPort: proxy.port,
      adminPort,
      account: own.account,
      shutdown: () => (stopped ??= runAll(undo)),
    };
  } catch (error) {
    await runAll(undo);
    throw error;
  }
}

interface World {
  readonly db: Database['db'];
  readonly upstream: Upstream;
  /** what the vault's own key bills */
  readonly own: { readonly account: string; readonly liveMode: boolean };
}

/** The database and Stripe, and the proof that they belong together. */
async function openWorld(options: VaultOptions, undo: Undo): Promise<World> {
  const { log, stripe } = options;
  const database = openDatabase({
    url: options.databaseUrl.reveal(),
    applicationName: 'chargeonce vault',
    poolSize: DATABASE_POOL,
    prepare: true,
    onError: (error) => log.warn({ err: error }, 'a database connection broke'),
  });
  undo.push(() => database.close());
  const upstream = createUpstream({
    base: stripe.apiBase ?? STRIPE,
    secret: stripe.apiKey,
    timeoutMs: stripe.timeoutMs,
  });
  undo.push(async () => upstream.close());
  const account = stripe.accountId ?? (await ownAccount(upstream));
  const own = { account, liveMode: options.mode === 'live' };
  await requireEnvironment(database.db, own);
  return { db: database.db, upstream, own };
}

interface Watch {
  readonly metrics: VaultMetrics;
  readonly alerts: Alerts;
  readonly onEvent: OnVaultEvent;
}

/** Log, metrics and alerts of everything that happens. */
function startWatch({ log, alerts: to, pauses }: VaultOptions, { db }: World, undo: Undo): Watch {
  const metrics = vaultMetrics({ db, now });
  const { webhook, slackUrl } = to;
  const alerts = startAlerts({
    db,
    log,
    targets: {
      webhook:
        webhook === null ? null : { url: webhook.url.reveal(), secret: webhook.secret.reveal() },
      slackUrl: slackUrl?.reveal() ?? null,
    },
    now,
    redact,
    onRaised: ({ kind }) => metrics.countAlert(kind),
    pollMs: pauses?.alertsMs ?? PAUSES.alertsMs,
  });
  undo.push(() => alerts.stop());
  const onEvent = (event: VaultEvent): void => {
    metrics.count(event);
    logEvent(log, event);
    const alert = alertOf(event, now());
    if (alert !== null) alerts.raise(alert);
  };
  return { metrics, alerts, onEvent };
}

/** The sweep of open reservations, and the check of the sums. */
function startBackground(
  { log, pauses }: VaultOptions,
  from: {
    readonly db: World['db'];
    readonly watch: Watch;
    readonly sweep: (force: boolean) => Promise<unknown>;
    readonly undo: Undo;
  },
): void {
  const { db, watch, undo } = from;
  const sweepAndTell = async (): Promise<void> => {
    await from.sweep(false);
    for (const use of await readNotableUses(db))
      for (const alert of alertsOfUse(use, now())) watch.alerts.raise(alert);
  };
  const sweeps = startRounds(sweepAndTell, {
    pauseMs: pauses?.sweepMs ?? PAUSES.sweepMs,
    onError: (error) => log.warn({ err: error }, 'a sweep failed: it is tried again'),
  });
  undo.push(() => sweeps.stop(ROUND_DRAIN_MS));
  const checkSums = async (): Promise<void> => {
    const { differing } = await readDrift(db);
    for (const window of differing) watch.alerts.raise(driftAlert(window));
  };
  const checks = startRounds(checkSums, {
    pauseMs: pauses?.driftMs ?? PAUSES.driftMs,
    onError: (error) => log.warn({ err: error }, 'the sums could not be checked'),
  });
  undo.push(() => checks.stop(ROUND_DRAIN_MS));
}

const now = (): Date => new Date();

/** Throws {@link VaultRefusesToStart} for what is missing or would be dangerous. */
function checkSettings(options: VaultOptions): {
  readonly adminToken: string;
  readonly runToken: string | null;
} {
  const { stripe, mode } = options;
  const adminToken = options.adminToken?.reveal() ?? '';
  const runToken = options.runToken?.reveal() ?? null;
  if (adminToken.length < MIN_TOKEN_LENGTH)
    throw new VaultRefusesToStart(
      'VAULT_ADMIN_TOKEN: the vault needs one, 32 characters or more. Make one: echo "vat_$(openssl rand -hex 32)"',
    );
  if (runToken !== null && runToken.length < MIN_TOKEN_LENGTH)
    throw new VaultRefusesToStart('VAULT_RUN_TOKEN: 32 characters or more, or none');
  if (runToken !== null && keysEqual(runToken, adminToken))
    throw new VaultRefusesToStart(
      'VAULT_RUN_TOKEN: must be another one than VAULT_ADMIN_TOKEN, or workers could raise their own cap',
    );
  const key = stripe.apiKey.reveal();
  const live = /^[rs]k_live_/.test(key);
  if (!live && !/^[rs]k_test_/.test(key))
    throw new VaultRefusesToStart(
      'STRIPE_API_KEY: the vault needs the secret or restricted key of Stripe itself, sk_… or rk_…',
    );
  if (live !== (mode === 'live'))
    throw new VaultRefusesToStart(
      live
        ? 'STRIPE_API_KEY: this is a live key. Real money moves only with CHARGEONCE_MODE=live'
        : 'CHARGEONCE_MODE: live mode with a test key. Use the live key, or unset CHARGEONCE_MODE',
    );
  if (live && stripe.apiBase !== undefined && new URL(stripe.apiBase).protocol !== 'https:')
    throw new VaultRefusesToStart(
      'STRIPE_API_BASE: a live key is never sent without TLS. Use https://, or unset it',
    );
  return { adminToken, runToken };
}

/** The account that the vault's own key bills: keys made here are good for it alone. */
async function ownAccount(upstream: Upstream): Promise<string> {
  const read = await upstream.get('/v1/account');
  if (read.kind === 'lost')
    throw new StripeAway(
      `Stripe cannot be asked which account the key bills: ${read.reason}. Try again, or set STRIPE_ACCOUNT_ID`,
    );
  const { status, body } = read;
  const id = typeof body === 'object' && body !== null && 'id' in body ? body.id : undefined;
  if (status === 200 && typeof id === 'string') return id;
  if (status === 401)
    throw new VaultRefusesToStart('STRIPE_API_KEY: Stripe does not know this key');
  if (status >= 500 || status === 429)
    throw new StripeAway(`Stripe answered ${status} when asked which account the key bills`);
  throw new VaultRefusesToStart(
    `STRIPE_ACCOUNT_ID: the key may not read its account (Stripe answered ${status}). Set it, acct_…`,
  );
}
