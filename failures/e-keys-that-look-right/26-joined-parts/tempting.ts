import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

/** What is due. Contracts of a year have the year in their id, and months as their periods. */
export interface Due extends Customer {
  readonly period: string;
}

/** Charges everybody who is due. It may be started again: Stripe knows the keys. */
export async function chargeAll(shop: Shop, due: readonly Due[]): Promise<void> {
  const stripe = stripeOf(shop);
  for (const one of due) {
    const idempotencyKey = `${one.id}:${one.period}`;
    try {
      await stripe.paymentIntents.create(paymentOf(one), { idempotencyKey });
    } catch (error) {
      // Stripe has had this key, so an earlier run has charged them.
      if (!(error instanceof Stripe.errors.StripeIdempotencyError)) throw error;
    }
  }
}
