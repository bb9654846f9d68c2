import { parseBillingPeriod } from '../../src/domain/billing-period.ts';
import { parseCustomerId } from '../../src/domain/customer-id.ts';
import type { RunRef, SlotRef } from '../../src/domain/ids.ts';
import { parseBillingNamespace } from '../../src/domain/namespace.ts';

/** A run's name, parsed as the product parses it. */
export function runRef(period = '2026-09', namespace = 'base'): RunRef {
  const parsedPeriod = parseBillingPeriod(period);
  const parsedNamespace = parseBillingNamespace(namespace);
  if (!parsedPeriod.ok || !parsedNamespace.ok) throw new Error(`bad run ${period} ${namespace}`);
  return { period: parsedPeriod.period, namespace: parsedNamespace.namespace };
}

/** A customer's slot in a run. */
export function slotRef(customer: string, run: RunRef = runRef()): SlotRef {
  const parsed = parseCustomerId(customer);
  if (!parsed.ok) throw new Error(parsed.problem);
  return { namespace: run.namespace, period: run.period, customerId: parsed.customerId };
}
