import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from '../db/database.ts';
import { claimAlerts, noteDelivery, raiseAlert, type ClaimedAlert } from '../db/vault-alerts.ts';
import { findVaultKey } from '../db/vault-keys.ts';
import type { Log } from '../log.ts';
import { deliverToSlack, deliverToWebhook, type AlertTargets } from './alert-delivery.ts';
import type { Alert } from './alert-rules.ts';

export interface AlertDeps {
  readonly db: Db;
  readonly log: Log;
  readonly targets: AlertTargets;
  readonly now: () => Date;
  /** takes what looks like a secret out of a text that a client wrote */
  readonly redact: (text: string) => string;
  /** called once per alert, in the process that raised it */
  readonly onRaised: (alert: Alert) => void;
  /** how often to look for alerts that others left; their own ones are delivered at once */
  readonly pollMs?: number;
}

export interface Alerts {
  /** Takes an alert; neither throws nor waits. The same thing again, here or elsewhere, alerts nobody. */
  raise(alert: Alert): void;
  /** Ends after what is under way. What is not delivered stays for another process, or the next start. */
  stop(): Promise<void>;
}

/** Alerts taken together; one delivery of each has to end within the lease of the claim. */
const BATCH = 10;
const POLL_MS = 5_000;
/** Things this process remembers to have alerted, so that a flood of refusals is no flood of statements. */
const REMEMBERED = 10_000;
/** Alerts that wait for the database; above this the log alone has them. */
const WAITING = 100;
/** With pauses that grow to an hour, more than a week. */
const MAX_TRIES = 200;

/**
 * Raises alerts once and delivers them until they are accepted: at least once each, by one of several processes. Log
 * and metric have them with the row, whatever becomes of the delivery.
 */
export function startAlerts(deps: AlertDeps): Alerts {
  const stopped = new AbortController();
  const seen = new Set<string>();
  const waiting: Alert[] = [];
  let wake = new AbortController();
  const loop = (async () => {
    while (!stopped.signal.aborted) {
      wake = new AbortController();
      try {
        await raiseWaiting(deps, waiting);
        while ((await deliverBatch(deps)) === BATCH && !stopped.signal.aborted);
      } catch (error) {
        deps.log.warn({ err: error }, 'alerts wait for the database');
      }
      const either = AbortSignal.any([wake.signal, stopped.signal]);
      await sleep(deps.pollMs ?? POLL_MS, undefined, { signal: either }).catch(() => {});
    }
    // What the last requests alerted to is another process's to deliver.
    await raiseWaiting(deps, waiting).catch((error: unknown) =>
      deps.log.error({ err: error, lost: waiting.length }, 'alerts could not be written'),
    );
  })();
  return {
    raise(alert) {
      const thing = `${alert.onceKey}:${alert.budgetDay}`;
      if (seen.has(thing)) return;
      if (seen.size >= REMEMBERED) seen.clear();
      seen.add(thing);
      if (waiting.length >= WAITING) {
        deps.log.error({ alert: alert.kind, vaultKey: alert.keyId }, alert.message);
        return;
      }
      waiting.push(alert);
      wake.abort();
    },
    async stop() {
      stopped.abort();
      await loop;
    },
  };
}

/** Writes what waits, oldest first; throws when the database is away, and then the rest goes on waiting. */
async function raiseWaiting(deps: AlertDeps, waiting: Alert[]): Promise<void> {
  for (let alert = waiting[0]; alert !== undefined; alert = waiting[0]) {
    await raiseOne(deps, alert);
    waiting.shift();
  }
}

async function raiseOne(deps: AlertDeps, alert: Alert): Promise<void> {
  const { db, log, redact } = deps;
  const { kind, keyId, details, message } = alert;
  const shown: Record<string, string | number | boolean | null> = { message: redact(message) };
  for (const [name, value] of Object.entries(details))
    shown[name] = typeof value === 'string' ? redact(value) : value;
  const onceKey = await onceKeyOf(db, alert);
  // False: another process, or this one before a restart, has alerted to it.
  if (!(await raiseAlert(db, { onceKey, kind, keyId, details: shown }))) return;
  const { message: text, ...facts } = shown;
  const level = kind === 'spend_at_80_percent' ? 'warn' : 'error';
  log[level]({ alert: kind, vaultKey: keyId, ...facts }, String(text));
  deps.onRaised(alert);
}

/** A budget per day is another one tomorrow. */
async function onceKeyOf(db: Db, { onceKey, keyId, budgetDay }: Alert): Promise<string> {
  if (budgetDay === null || keyId === null) return onceKey;
  const key = await findVaultKey(db, keyId);
  return key?.capBasis === 'day' ? `${onceKey}:${budgetDay}` : onceKey;
}

/** Delivers what is due, side by side, and says how many were taken. */
async function deliverBatch(deps: AlertDeps): Promise<number> {
  const claimed = await claimAlerts(deps.db, BATCH);
  await Promise.all(claimed.map(async (alert) => deliver(deps, alert)));
  return claimed.length;
}

async function deliver(deps: AlertDeps, alert: ClaimedAlert): Promise<void> {
  const { webhook, slackUrl } = deps.targets;
  const [toWebhook, toSlack] = await Promise.all([
    webhook === null || alert.webhookDone ? null : deliverToWebhook(webhook, alert, deps.now()),
    slackUrl === null || alert.slackDone ? null : deliverToSlack(slackUrl, alert),
  ]);
  const failed = [toWebhook, toSlack].filter((one) => one?.ok === false);
  const givenUp = failed.length > 0 && alert.tries >= MAX_TRIES;
  const { log } = deps;
  for (const { why } of failed.filter((one) => one !== null && !one.ok)) {
    const facts = { alertId: alert.alertId, alert: alert.kind, tries: alert.tries, why };
    if (givenUp) log.error(facts, 'an alert was never taken: given up');
    else log.warn(facts, 'an alert was not taken: it is tried again');
  }
  await noteDelivery(deps.db, {
    alertId: alert.alertId,
    webhook: toWebhook?.ok === true,
    slack: toSlack?.ok === true,
    done: failed.length === 0 || givenUp,
  });
}
