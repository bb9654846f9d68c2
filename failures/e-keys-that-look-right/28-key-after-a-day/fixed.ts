import Stripe from 'stripe';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';
import type { Job } from './tempting.ts';

/** Stripe keeps keys for at least 24 hours; an hour is left for a send that is slow. */
const KEY_LIFE_MS = 23 * 3_600_000;

export interface DatedJob extends Job {
  firstSentAtMs: number | null;
}

/** Sends what is pending while its key is young; of what is older it asks what became of it. */
export async function sendPending(
  shop: Shop,
  outbox: readonly DatedJob[],
  nowMs: number,
): Promise<void> {
  const stripe = stripeOf(shop);
  for (const job of outbox) {
    if (job.state === 'done') continue;
    const { customer, idempotencyKey } = job;
    job.firstSentAtMs ??= nowMs;
    if (nowMs - job.firstSentAtMs > KEY_LIFE_MS) {
      const sent = await stripe.paymentIntents.list({ customer: customer.stripeCustomer });
      const paid = sent.data.some(
        ({ status, metadata }) => status === 'succeeded' && metadata['job'] === idempotencyKey,
      );
      if (paid) job.state = 'done';
      // Else it is for a person: nothing here may be sent under a key that is forgotten.
      continue;
    }
    try {
      const payment = { ...paymentOf(customer), metadata: { job: idempotencyKey } };
      await stripe.paymentIntents.create(payment, { idempotencyKey });
      job.state = 'done';
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripeConnectionError)) throw error;
    }
  }
}
