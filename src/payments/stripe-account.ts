import type { PaymentGateway } from './gateway.ts';

/** The account a key bills: part of every idempotency key, so it must be known and never guessed. */
export async function stripeAccount(
  gateway: PaymentGateway,
  stripe: { readonly accountId?: string | undefined },
): Promise<string> {
  if (stripe.accountId !== undefined) return stripe.accountId;
  const { id } = await gateway.account();
  return id;
}
