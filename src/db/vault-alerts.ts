import { sql } from 'kysely';
import type { Db } from './database.ts';

export type AlertKind =
  | 'spend_cap_exceeded'
  | 'spend_at_80_percent'
  | 'spend_above_expected'
  | 'spend_above_cap'
  | 'first_refusal_402'
  | 'endpoint_denied'
  | 'idempotency_key_missing'
  | 'unknown_or_expired_key'
  | 'reply_mismatch'
  | 'drift';

export type AlertDetails = Readonly<Record<string, string | number | boolean | null>>;

/** An alert that this caller may deliver until its lease ends. */
export interface ClaimedAlert {
  readonly alertId: number;
  readonly onceKey: string;
  readonly kind: AlertKind;
  readonly keyId: string | null;
  readonly details: AlertDetails;
  readonly at: Date;
  /** tries, this one included */
  readonly tries: number;
  /** whether the signed webhook, or the Slack-style URL, has taken it already */
  readonly webhookDone: boolean;
  readonly slackDone: boolean;
}

/**
 * Raises an alert once per `onceKey`, however many processes notice the same thing: true for the one that did. A key
 * that is not (or no longer) known here is left out of the row, the alert goes out all the same.
 */
export async function raiseAlert(
  db: Db,
  alert: {
    readonly onceKey: string;
    readonly kind: AlertKind;
    readonly keyId: string | null;
    readonly details: AlertDetails;
  },
): Promise<boolean> {
  const { rows } = await sql`
    INSERT INTO vault_alerts (once_key, kind, key_id, details)
    SELECT ${alert.onceKey}, ${alert.kind}, (SELECT key_id FROM vault_keys WHERE key_id = ${alert.keyId}),
      ${JSON.stringify(alert.details)}::jsonb
    ON CONFLICT ON CONSTRAINT alert_is_raised_once DO NOTHING RETURNING alert_id`.execute(db);
  return rows.length > 0;
}

/**
 * Takes alerts that are due and locks others out of them until the next try is due: the pauses double, 15 s to 1 h.
 * Two at once get different ones; whoever dies with a claim leaves it to the next try.
 */
export async function claimAlerts(db: Db, limit: number): Promise<readonly ClaimedAlert[]> {
  const { rows } = await sql<ClaimedAlert>`
    WITH due AS MATERIALIZED (
      SELECT alert_id FROM vault_alerts WHERE done_at IS NULL AND next_try_at <= now()
      ORDER BY next_try_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)
    UPDATE vault_alerts a SET tries = a.tries + 1,
      next_try_at = now() + least(interval '1 hour', interval '15 seconds' * power(2, least(a.tries, 10)))
    FROM due WHERE a.alert_id = due.alert_id
    RETURNING a.alert_id AS "alertId", a.once_key AS "onceKey", a.kind, a.key_id AS "keyId", a.details, a.at,
      a.tries, a.webhook_at IS NOT NULL AS "webhookDone", a.slack_at IS NOT NULL AS "slackDone"`.execute(
    db,
  );
  return rows;
}

/** Notes who has taken an alert; `done` ends its tries. Twice: the first time of each stays. */
export async function noteDelivery(
  db: Db,
  delivery: {
    readonly alertId: number;
    readonly webhook: boolean;
    readonly slack: boolean;
    readonly done: boolean;
  },
): Promise<void> {
  const { alertId, webhook, slack, done } = delivery;
  await sql`
    UPDATE vault_alerts SET
      webhook_at = CASE WHEN ${webhook} THEN coalesce(webhook_at, now()) ELSE webhook_at END,
      slack_at = CASE WHEN ${slack} THEN coalesce(slack_at, now()) ELSE slack_at END,
      done_at = CASE WHEN ${done} THEN coalesce(done_at, now()) ELSE done_at END
    WHERE alert_id = ${alertId}`.execute(db);
}

/** What is used of a cap that is worth a warning, whoever used it; minor units. */
export interface NotableUse {
  readonly keyId: string;
  readonly currency: string;
  readonly usedMinor: number;
  readonly capMinor: number;
  readonly expectedMinor: number | null;
}

/** Caps of living keys that stand above 80 %, above their plan or above themselves; of a cap per day, today's. Reads only. */
export async function readNotableUses(db: Db): Promise<readonly NotableUse[]> {
  const { rows } = await sql<NotableUse>`
    SELECT w.key_id AS "keyId", w.currency, w.used_minor AS "usedMinor", w.cap_minor AS "capMinor",
      c.expected_minor AS "expectedMinor"
    FROM vault_windows w JOIN vault_caps c USING (key_id, currency) JOIN vault_keys k USING (key_id)
    WHERE w."window" IN ('', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
      AND k.revoked_at IS NULL AND k.expires_at > now()
      AND (w.used_minor >= w.cap_minor * 0.8 OR w.used_minor > c.expected_minor)`.execute(db);
  return rows;
}
