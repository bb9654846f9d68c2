import type { Db } from './database.ts';

/** A customer as the last import left it. Amounts are minor units. */
export interface ImportedCustomer {
  readonly customerId: string;
  readonly stripeCustomerId: string;
  readonly paymentMethodId: string | null;
  readonly amountMinor: number;
  readonly currency: string;
  readonly description: string | null;
  readonly active: boolean;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** Customers behind `after`, ordered by id; '' begins with the first. Reads only. */
export async function listCustomers(
  db: Db,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<readonly ImportedCustomer[]> {
  return db
    .selectFrom('customers')
    .select([
      'customer_id as customerId',
      'stripe_customer_id as stripeCustomerId',
      'payment_method_id as paymentMethodId',
      'amount_minor as amountMinor',
      'currency',
      'description',
      'active',
      'created_at as createdAt',
      'updated_at as updatedAt',
    ])
    .where('customer_id', '>', after)
    .orderBy('customer_id')
    .limit(limit)
    .execute();
}
