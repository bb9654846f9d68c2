import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import type { RunRef } from '../domain/ids.ts';

/** Keyword attributes to filter by in the Temporal UI; `chargeonce setup` registers them. */
const BILLING_PERIOD = defineSearchAttributeKey('BillingPeriod', SearchAttributeType.KEYWORD);
const BILLING_NAMESPACE = defineSearchAttributeKey('BillingNamespace', SearchAttributeType.KEYWORD);
export const BILLING_OUTCOME = defineSearchAttributeKey(
  'BillingOutcome',
  SearchAttributeType.KEYWORD,
);

/** What every workflow of a run is filtered by in the Temporal UI. */
export function runSearchAttributes(run: RunRef) {
  return [
    { key: BILLING_PERIOD, value: run.period as string },
    { key: BILLING_NAMESPACE, value: run.namespace as string },
  ];
}
