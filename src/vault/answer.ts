import type { FinishOrder } from '../db/vault-ledger.ts';
import type { Judgement, UpstreamAnswer } from './judge-reply.ts';
import { refusalOf } from './refusal.ts';
import type { UpstreamReply } from './upstream.ts';

/** What the client gets. Content-Length and Connection are the server's. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Stripe's headers that clients read. Location is none: it would lead a client's key to another host. */
const PASSED_BACK = new Set([
  'content-encoding',
  'content-type',
  'idempotency-key',
  'idempotent-replayed',
  'original-request',
  'request-id',
  'retry-after',
]);

/** Stripe's answer for the client, byte by byte, or our word for none. Should it quote the secret, that is blotted out. */
export function answerOf(reply: UpstreamReply, secret: string): Answer {
  if (reply.kind === 'lost' || reply.body === null) {
    const timedOut = reply.kind === 'lost' && reply.reason === 'upstream_timeout';
    const { status, headers, body } = refusalOf(timedOut ? 'upstream_timeout' : 'upstream_failed');
    return { status, headers, body: Buffer.from(body) };
  }
  const headers = Object.fromEntries(
    Object.entries(reply.headers).flatMap(([name, value]) =>
      typeof value === 'string' && (PASSED_BACK.has(name) || name.startsWith('stripe-'))
        ? [[name, value]]
        : [],
    ),
  );
  return { status: reply.status, headers, body: withoutSecret(reply.body, secret) };
}

/** What the judge reads of a reply. Pure. */
export function judged(reply: UpstreamReply): UpstreamAnswer {
  if (reply.kind === 'lost') return reply;
  return {
    kind: 'reply',
    status: reply.status,
    contentType: reply.headers['content-type'] ?? null,
    replayed: isReplayed(reply),
    body: reply.body,
  };
}

/** The row of an answer. Pure. */
export function finishOf(
  requestId: string,
  reply: UpstreamReply,
  { judgement, durationMs }: { readonly judgement: Judgement; readonly durationMs: number },
): FinishOrder {
  const { to, resolves, reason, objectId } = judgement;
  const lost = reply.kind === 'lost';
  return {
    requestId,
    status: lost ? null : reply.status,
    error: lost ? reply.reason : null,
    stripeRequestId: lost ? null : headerOf(reply, 'request-id'),
    replayed: !lost && isReplayed(reply),
    durationMs,
    to,
    resolves,
    reason,
    objectId,
  };
}

type WholeReply = Extract<UpstreamReply, { kind: 'reply' }>;

function isReplayed(reply: WholeReply): boolean {
  return headerOf(reply, 'idempotent-replayed') === 'true';
}

function headerOf({ headers }: WholeReply, name: string): string | null {
  const value = headers[name];
  return typeof value === 'string' ? value : null;
}

function withoutSecret(body: Buffer, secret: string): Buffer {
  if (secret === '' || !body.includes(secret)) return body;
  return Buffer.from(body.toString('latin1').replaceAll(secret, '[redacted]'), 'latin1');
}
