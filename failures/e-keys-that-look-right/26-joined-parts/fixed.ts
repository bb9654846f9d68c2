import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';
import { stableKey } from '../../harness/stable-key.ts';
import type { Due } from './tempting.ts';

/** Each part stands behind its length, so that no two lists of parts are one text. */
export async function chargeAll(shop: Shop, due: readonly Due[]): Promise<void> {
  const stripe = stripeOf(shop);
  for (const one of due) {
    const idempotencyKey = stableKey('create', one.id, one.period);
    // "Used with other parameters" is no proof of anything: it ends the run, and somebody looks.
    await stripe.paymentIntents.create(paymentOf(one), { idempotencyKey });
  }
}
