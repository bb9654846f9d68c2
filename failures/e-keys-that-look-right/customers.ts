import { parseCustomerId } from '../../src/domain/customer-id.ts';
import type { OursWorld } from '../harness/ours-world.ts';
import type { Shop } from '../harness/exhibit.ts';

/** The same shop, in which one and the other have these ids. */
export function withIds(shop: Shop, ids: readonly string[]): Shop {
  const customers = shop.customers.map((customer, at) => ({
    ...customer,
    id: ids[at] ?? customer.id,
  }));
  return { ...shop, customers };
}

/** The same in our database, before anything is billed. */
export async function giveIds(world: OursWorld, ids: readonly string[]): Promise<void> {
  for (const [at, { stripeCustomer }] of world.customers.entries()) {
    await world.database.db
      .updateTable('customers')
      .set({ customer_id: ids[at] ?? '' })
      .where('stripe_customer_id', '=', stripeCustomer)
      .execute();
  }
}

/** Gives every customer a card, as customers do when theirs was declined. */
export async function giveCards({ database }: OursWorld, paymentMethod: string): Promise<void> {
  await database.db.updateTable('customers').set({ payment_method_id: paymentMethod }).execute();
}

/** An operator orders a rerun of everybody, and it is done. */
export async function rerunAll(world: OursWorld): Promise<void> {
  const { database, client, run } = world;
  const slots = await database.db.selectFrom('billing_charges').select('customer_id').execute();
  for (const { customer_id: id } of slots) {
    const customer = parseCustomerId(id);
    if (!customer.ok) throw new TypeError(customer.problem);
    const answer = await client.rerunCustomer({
      ...run,
      customerId: customer.customerId,
      operator: 'olga',
      reason: 'the card is mended',
    });
    if (answer !== 'accepted') throw new Error(`the rerun of ${id} was answered: ${answer}`);
  }
  await client.run(run).result();
}
