import type { FastifyInstance } from 'fastify';
import type { Db } from '../../src/db/database.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { buildApp } from '../../src/http/build-app.ts';
import type { GateLimits } from '../../src/http/gate.ts';
import type { Log } from '../../src/log.ts';
import { readStripeWebhook } from '../../src/payments/stripe-webhook.ts';
import { signPayload } from '../../src/simulator/webhooks.ts';

export const WEBHOOK_SECRET = 'whsec_integration_test';

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A log that keeps what it is told. */
export function keepingLog(): { readonly log: Log; readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const write = (level: LogLine['level']) => (fields: unknown, message?: unknown) => {
    if (typeof fields === 'string') lines.push({ level, message: fields, fields: {} });
    else lines.push({ level, message: String(message), fields: { ...Object(fields) } });
  };
  return {
    lines,
    log: {
      debug: write('debug'),
      info: write('info'),
      warn: write('warn'),
      error: write('error'),
    },
  };
}

/** The application of a test account in test mode. */
export function webhookApp(options: {
  readonly db: Db;
  readonly log: Log;
  readonly secrets?: readonly string[];
  readonly limits?: GateLimits;
  readonly onStored?: () => void;
}): FastifyInstance {
  const { db, log, secrets = [WEBHOOK_SECRET] } = options;
  return buildApp({
    db,
    log,
    stripeWebhook: {
      db,
      read: secrets.length === 0 ? null : (signed) => readStripeWebhook(secrets, signed),
      account: 'acct_own',
      liveMode: false,
      apiVersion: '2026-10-28.endive',
      onStored: options.onStored ?? (() => {}),
      ...(options.limits === undefined ? {} : { limits: options.limits }),
    },
  });
}

let made = 0;

export interface EventParts {
  readonly id?: string;
  readonly type?: string;
  readonly livemode?: boolean;
  readonly account?: string;
  readonly apiVersion?: string;
  readonly intent?: string;
  readonly slot?: SlotRef | null;
}

/** An event of a PaymentIntent as Stripe sends it, personal data included. */
export function eventOf(parts: EventParts = {}): string {
  made += 1;
  const { slot = null } = parts;
  return JSON.stringify({
    id: parts.id ?? `evt_${made}`,
    object: 'event',
    api_version: parts.apiVersion ?? '2026-10-28.endive',
    created: 1_790_000_000,
    type: parts.type ?? 'payment_intent.succeeded',
    livemode: parts.livemode ?? false,
    ...(parts.account === undefined ? {} : { account: parts.account }),
    request: { id: 'req_1', idempotency_key: 'jane.doe@example.com' },
    data: {
      object: {
        id: parts.intent ?? `pi_${made}`,
        object: 'payment_intent',
        amount: 1500,
        receipt_email: 'jane.doe@example.com',
        shipping: { name: 'Jane Doe', phone: '+49 30 1234567' },
        payment_method_details: { card: { last4: '4242' } },
        metadata:
          slot === null
            ? { order: 'of somebody else' }
            : {
                chargeonce_namespace: slot.namespace,
                chargeonce_customer: slot.customerId,
                chargeonce_period: slot.period,
              },
      },
    },
  });
}

/** Posts an event as Stripe does; by default signed now, with the right secret. */
export async function post(
  app: FastifyInstance,
  payload: string,
  how: { readonly secret?: string; readonly ageSeconds?: number } = {},
) {
  const at = Math.floor(Date.now() / 1000) - (how.ageSeconds ?? 0);
  return app.inject({
    method: 'POST',
    url: '/webhooks/stripe',
    payload,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'stripe-signature': signPayload(payload, how.secret ?? WEBHOOK_SECRET, at),
    },
  });
}

/** Every row of the inbox as text: what a backup would show. */
export async function inboxText(db: Db): Promise<string> {
  return JSON.stringify(await db.selectFrom('webhook_events').selectAll().execute());
}
