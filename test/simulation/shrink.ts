// From a failing plan to the smallest one that still fails: parts are left out as long as the same
// invariant breaks (delta debugging).
import type { Fault, Order, Plan, PlannedCustomer } from './plan.ts';

type Part =
  | { readonly customer: PlannedCustomer }
  | { readonly fault: Fault }
  | { readonly order: Order };

/** Plays at most this many plans; each is a fraction of a second. */
const MAX_PLAYS = 200;

/** `fails` plays a plan and says whether the same invariant still breaks. */
export async function shrink(
  plan: Plan,
  fails: (smaller: Plan) => Promise<boolean>,
): Promise<{ readonly plan: Plan; readonly plays: number }> {
  const count = { plays: 0 };
  const tryParts = async (parts: readonly Part[]): Promise<boolean> => {
    count.plays += 1;
    return fails(planFrom(plan, parts));
  };
  let parts = partsOf(plan);
  // Customers hardly meet, so one of them is usually enough.
  for (const { id } of plan.customers) {
    const alone = parts.filter((part) => {
      const whose = customerOf(part);
      return whose === null || whose === id;
    });
    if (alone.length < parts.length && (await tryParts(alone))) {
      parts = alone;
      break;
    }
  }
  let chunk = Math.ceil(parts.length / 2);
  while (chunk >= 1 && count.plays < MAX_PLAYS) {
    let removed = false;
    for (let at = 0; at < parts.length && count.plays < MAX_PLAYS;) {
      const fewer = parts.filter((_, i) => i < at || i >= at + chunk);
      if (fewer.length < parts.length && (await tryParts(fewer))) {
        parts = fewer;
        removed = true;
      } else {
        at += chunk;
      }
    }
    if (chunk === 1 && !removed) break;
    chunk = Math.max(1, Math.floor(chunk / 2));
  }
  return { plan: planFrom(plan, parts), plays: count.plays };
}

/** The plan as lines, for whoever reads a failure. */
export function describePlan(plan: Plan): readonly string[] {
  return partsOf(plan).map((part) => JSON.stringify(part));
}

function partsOf(plan: Plan): readonly Part[] {
  return [
    ...plan.faults.map((fault) => ({ fault })),
    ...plan.orders.map((order) => ({ order })),
    ...plan.customers.map((customer) => ({ customer })),
  ];
}

function planFrom(plan: Plan, parts: readonly Part[]): Plan {
  const customers = parts.flatMap((part) => ('customer' in part ? [part.customer] : []));
  const names = new Set(['run', ...customers.map(({ id }) => id)]);
  const here = (part: Part): boolean => {
    const whose = customerOf(part);
    return whose === null || names.has(whose);
  };
  const kept = parts.filter(here);
  return {
    ...plan,
    customers,
    faults: kept.flatMap((part) => ('fault' in part ? [part.fault] : [])),
    orders: kept.flatMap((part) => ('order' in part ? [part.order] : [])),
  };
}

function customerOf(part: Part): string | null {
  if ('customer' in part) return part.customer.id;
  const of: Fault | Order = 'fault' in part ? part.fault : part.order;
  return 'customer' in of && of.customer !== 'run' ? of.customer : null;
}
