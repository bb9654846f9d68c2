import { createHmac } from 'node:crypto';
import type { ClaimedAlert } from '../db/vault-alerts.ts';

/** Where alerts go besides the log. The addresses may hold secrets: they are in no log. */
export interface AlertTargets {
  readonly webhook: { readonly url: string; readonly secret: string } | null;
  /** a chat's incoming hook, which takes `{"text": …}` */
  readonly slackUrl: string | null;
}

/** Far below the lease of a claim (15 s at first), so that no second process delivers meanwhile. */
const DELIVERY_TIMEOUT_MS = 5_000;

export type Delivered =
  | { readonly ok: true }
  /** fit for a log: a status or the code of a socket's error */
  | { readonly ok: false; readonly why: string };

/**
 * Posts an alert to the signed webhook. Twice with one alert: the same `id`, by which the receiver knows it again;
 * the time of the signature is another one.
 */
export async function deliverToWebhook(
  webhook: { readonly url: string; readonly secret: string },
  alert: ClaimedAlert,
  now: Date,
): Promise<Delivered> {
  const body = JSON.stringify({
    id: `alert_${alert.alertId}`,
    kind: alert.kind,
    vault_key: alert.keyId,
    at: alert.at.toISOString(),
    message: messageOf(alert),
    details: alert.details,
  });
  return post(webhook.url, body, {
    'Chargeonce-Signature': signatureOf(webhook.secret, body, now),
  });
}

/** Posts an alert to a chat's incoming hook. Twice: two messages. */
export async function deliverToSlack(url: string, alert: ClaimedAlert): Promise<Delivered> {
  return post(url, JSON.stringify({ text: `chargeonce: ${messageOf(alert)}` }), {});
}

/** `t=<seconds>,v1=<hex>`: HMAC-SHA256 with the secret over the time, a point, and the body as it was sent. Pure. */
export function signatureOf(secret: string, body: string, now: Date): string {
  const seconds = Math.floor(now.getTime() / 1000);
  const mac = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex');
  return `t=${seconds},v1=${mac}`;
}

function messageOf({ details, kind }: ClaimedAlert): string {
  const { message } = details;
  return typeof message === 'string' ? message : kind;
}

async function post(
  url: string,
  body: string,
  headers: Readonly<Record<string, string>>,
): Promise<Delivered> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      body,
      headers: { 'Content-Type': 'application/json', 'User-Agent': 'chargeonce', ...headers },
      // A redirect would carry the alert to a host that nobody configured.
      redirect: 'error',
      signal: AbortSignal.timeout(DELIVERY_TIMEOUT_MS),
    });
    // The answer's text is of no use, and may be endless.
    await response.body?.cancel();
    return response.ok ? { ok: true } : { ok: false, why: `status ${response.status}` };
  } catch (error) {
    return { ok: false, why: reasonOf(error) };
  }
}

/** The code of the socket's error; its message may hold the address. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  const { cause } = error;
  if (cause instanceof Error && 'code' in cause && typeof cause.code === 'string')
    return cause.code;
  return error.name === 'TimeoutError' ? 'timeout' : 'the connection failed';
}
