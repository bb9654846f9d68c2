import type { SlotRef } from './ids.ts';

/** What we take out of an event. Names, e-mails and cards of the payload stay behind. */
export interface WebhookFacts {
  readonly eventId: string;
  readonly type: string;
  readonly apiVersion: string | null;
  /** the connected account, on Connect events only */
  readonly account: string | null;
  readonly livemode: boolean;
  readonly createdSeconds: number;
  readonly objectId: string;
  readonly paymentIntentId: string | null;
  readonly chargeId: string | null;
  /** of the request that caused it, when it is one of ours: keys of others may be anything */
  readonly idempotencyKey: string | null;
  /** our metadata; null when it is not there, or names no slot we could have */
  readonly slot: SlotRef | null;
}
