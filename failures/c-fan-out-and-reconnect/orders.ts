import type { RerunAnswer } from '../../src/domain/charge.ts';
import { parseCustomerId } from '../../src/domain/customer-id.ts';
import type { Customer } from '../harness/exhibit.ts';
import type { OursWorld } from '../harness/ours-world.ts';

/**
 * The most that a trigger can ask for: that the period is billed and, under a request id that is the trigger's own, that
 * this customer is charged if it was not.
 */
export async function orderCharge(
  { client, run }: OursWorld,
  order: { readonly customer: Pick<Customer, 'id'>; readonly trigger: string },
): Promise<RerunAnswer> {
  const { customer, trigger } = order;
  const parsed = parseCustomerId(customer.id);
  if (!parsed.ok) throw new TypeError(parsed.problem);
  await client.startRun(run, trigger);
  return client.rerunCustomer({
    ...run,
    customerId: parsed.customerId,
    operator: 'trigger',
    reason: `ordered by ${trigger}`,
    requestId: `${run.period}-${trigger}-${customer.id}`,
  });
}

/** Orders all customers once more, after the run. Throws unless each of them is found charged. */
export async function orderAllAgain(world: OursWorld, trigger: string): Promise<void> {
  for (const customer of world.customers) {
    const answer = await orderCharge(world, { customer, trigger });
    if (answer !== 'alreadyCharged') throw new Error(`${customer.id} was ${answer} after the run`);
  }
}
