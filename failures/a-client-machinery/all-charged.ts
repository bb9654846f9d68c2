import type { OursWorld } from '../harness/ours-world.ts';

/** Throws unless the database says of every customer what Stripe's ledger says: charged. */
export async function sawAllCharged({ database, customers }: OursWorld): Promise<void> {
  const slots = await database.db.selectFrom('billing_charges').select('state').execute();
  const charged = slots.filter(({ state }) => state === 'charged').length;
  if (charged !== customers.length)
    throw new Error(`${charged} of ${customers.length} slots are charged`);
}
