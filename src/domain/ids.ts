import type { BillingPeriod } from './billing-period.ts';
import type { CustomerId } from './customer-id.ts';
import type { BillingNamespace } from './namespace.ts';

/** A billing run's identity: what Temporal, Postgres and the operator all call it by. */
export interface RunRef {
  readonly namespace: BillingNamespace;
  readonly period: BillingPeriod;
}

export interface SlotRef extends RunRef {
  readonly customerId: CustomerId;
}

/** Workflows, local activities (claim, record) and planning. */
export const BILLING_TASK_QUEUE = 'billing';
/** Stripe calls only: activity-only workers, so the queue's rate limit holds for every one of them. */
export const CHARGE_TASK_QUEUE = 'charge';

/** The cluster's singleton for a period. `base` is left out, so the common ID is `billing-2026-11`. */
export function runWorkflowId({ namespace, period }: RunRef): string {
  return namespace === 'base' ? `billing-${period}` : `billing-${period}.${namespace}`;
}

/** A leaf of the tree: at most 500 customers, numbered by their place in the run. */
export function shardWorkflowId(run: RunRef, shard: number): string {
  return `${runWorkflowId(run)}/shards/${shard}`;
}

/** A node above the leaves, needed only for runs of more than 250,000 customers. */
export function groupWorkflowId(run: RunRef, level: number, group: number): string {
  return `${runWorkflowId(run)}/groups/${level}.${group}`;
}

/** A settle round over the slots whose outcome was still unknown when it began. */
export function settleWorkflowId(run: RunRef, round: string): string {
  return `${runWorkflowId(run)}/settle/${round}`;
}

/** From period and customer only, never from the shard: shard borders may move, the ID may not. */
export function customerWorkflowId(slot: SlotRef): string {
  return `${runWorkflowId(slot)}/${slot.customerId}`;
}

/** The Schedule and the workflow of the hourly sweep; Temporal adds the nominal time to the workflow's ID. */
export const HOUSEKEEPING_ID = 'chargeonce-housekeeping';

/** The Schedule that ticks for a namespace; Temporal adds the nominal time to the tick's workflow ID. */
export function scheduleId(namespace: BillingNamespace): string {
  return namespace === 'base' ? 'billing-schedule' : `billing-schedule.${namespace}`;
}

export function tickWorkflowId(namespace: BillingNamespace): string {
  return namespace === 'base' ? 'billing-tick' : `billing-tick.${namespace}`;
}
