import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Db } from '../../db/database.ts';
import { storeWebhookEvent } from '../../db/webhook-events.ts';
import type { Log } from '../../log.ts';
import type { WebhookFacts } from '../../domain/webhook-facts.ts';
import type { SignedBody, WebhookReading } from '../../payments/stripe-webhook.ts';
import { Gate, type GateLimits } from '../gate.ts';
import { refuse } from '../refuse.ts';
import { isOfInterest } from '../webhooks/decide.ts';

export interface StripeWebhookDeps {
  readonly db: Db;
  /** null when no secret is configured: nothing could be told from a forgery, so all is refused */
  readonly read: ((signed: SignedBody) => WebhookReading) | null;
  readonly account: string;
  readonly liveMode: boolean;
  /** what our own requests are frozen with; events of another version are taken all the same */
  readonly apiVersion: string;
  /** an event waits in the inbox */
  readonly onStored: () => void;
  readonly log: Log;
  readonly limits?: GateLimits;
}

/**
 * Stripe sends a few events per charge, and its default limit is 25 charges per second. What is
 * refused here it sends again for three days. At most 64 bodies of 256 KiB are in memory.
 */
const LIMITS: GateLimits = { concurrent: 64, perSecond: 300, burst: 600 };
/** Refusals a minute that are logged: a stranger must not fill the disk. */
const LOGGED_PER_MINUTE = 30;

/**
 * `POST /webhooks/stripe`: verifies the bytes, stores what they say, then acknowledges. The same event
 * again, or twice at once, is stored once and acknowledged each time. 2xx means that it is committed.
 */
export async function registerStripeWebhook(
  app: FastifyInstance,
  deps: StripeWebhookDeps,
): Promise<void> {
  const gate = new Gate(deps.limits ?? LIMITS, () => performance.now());
  const quiet = throttle(LOGGED_PER_MINUTE);
  const versions = new Set<string>();
  // In this route alone a body is bytes: what was parsed and printed again has another signature.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.addHook('onRequest', async (_request, reply) => enter(gate, reply));
  app.post('/webhooks/stripe', async (request, reply) => {
    if (deps.read === null) {
      if (quiet()) deps.log.error('a webhook came, and STRIPE_WEBHOOK_SECRETS is not set: refused');
      return refuse(reply, 503);
    }
    const reading = deps.read(signedBodyOf(request));
    if (reading.kind === 'refused') {
      if (quiet()) deps.log.warn({ reason: reading.reason }, 'a webhook was refused');
      return refuse(reply, 400);
    }
    const { event } = reading;
    if (event.livemode !== deps.liveMode || !isOwnAccount(event, deps.account)) {
      const { eventId, account, livemode } = event;
      if (quiet()) {
        const message =
          'a webhook of another account or mode was refused: wrong endpoint or secret';
        deps.log.error({ event: eventId, account, livemode }, message);
      }
      return refuse(reply, 403);
    }
    noteVersion(versions, event, deps);
    if (!isOfInterest(event.type)) return { received: true };
    const stored = await store(deps, event);
    if (stored === 'conflict') return refuse(reply, 409);
    if (stored === null) return refuse(reply, 503);
    if (stored === 'stored') deps.onStored();
    return { received: true };
  });
}

async function enter(gate: Gate, reply: FastifyReply): Promise<FastifyReply | undefined> {
  const entered = gate.enter();
  if (entered === 'in') {
    // Also comes when the client goes away in the middle of its body.
    reply.raw.once('close', () => gate.leave());
    return undefined;
  }
  return refuse(reply.header('Retry-After', '1'), entered === 'full' ? 503 : 429);
}

function signedBodyOf(request: FastifyRequest): SignedBody {
  const signature = request.headers['stripe-signature'];
  return {
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    signature: typeof signature === 'string' ? signature : undefined,
    // Wall-clock time, as Stripe signs it.
    nowMs: Date.now(),
  };
}

/** Only Connect events name an account; every other one is of the account whose secret signed it. */
function isOwnAccount({ account }: WebhookFacts, own: string): boolean {
  return account === null || account === own;
}

/** An event is a hint whose truth is looked up, so its version does not matter; it is worth knowing. */
function noteVersion(seen: Set<string>, event: WebhookFacts, deps: StripeWebhookDeps): void {
  const version = event.apiVersion ?? 'none';
  if (version === deps.apiVersion || seen.has(version) || seen.size > 20) return;
  seen.add(version);
  deps.log.info(
    { version, ours: deps.apiVersion },
    'webhooks come under another API version than our requests: taken as hints all the same',
  );
}

async function store(deps: StripeWebhookDeps, event: WebhookFacts) {
  try {
    const stored = await storeWebhookEvent(deps.db, event);
    if (stored === 'conflict') {
      deps.log.error({ event: event.eventId }, 'an event came again with another content: refused');
    }
    return stored;
  } catch (error) {
    // Not stored: anything but 2xx, and Stripe sends it again.
    deps.log.error({ err: error, event: event.eventId }, 'a webhook could not be stored');
    return null;
  }
}

/** True as long as fewer than so many were asked for within a minute. */
function throttle(perMinute: number): () => boolean {
  let since = performance.now();
  let count = 0;
  return () => {
    const now = performance.now();
    if (now - since > 60_000) {
      since = now;
      count = 0;
    }
    count += 1;
    return count <= perMinute;
  };
}
