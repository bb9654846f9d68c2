import { ChildWorkflowFailure, executeChild, type ChildWorkflowOptions } from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import type { CustomerResult } from '../domain/charge.ts';
import { customerWorkflowId, type SlotRef } from '../domain/ids.ts';
import { customerCharge } from './customer-charge.ts';
import { runSearchAttributes } from './search-attributes.ts';

/**
 * Runs one customer's workflow to its end. Null when its ID is open or has completed: somebody has this
 * customer, and the slot's row says how it ended. A child that failed is unknown, not "not charged".
 */
export async function runCustomer(
  slot: SlotRef,
  options: Pick<ChildWorkflowOptions, 'workflowIdReusePolicy' | 'priority'> & { summary: string },
): Promise<CustomerResult | null> {
  const { summary, ...rest } = options;
  try {
    return await executeChild(customerCharge, {
      ...rest,
      workflowId: customerWorkflowId(slot),
      args: [{ namespace: slot.namespace, period: slot.period, customerId: slot.customerId }],
      staticSummary: summary,
      typedSearchAttributes: runSearchAttributes(slot),
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return null;
    if (error instanceof ChildWorkflowFailure) {
      return { outcome: 'indeterminate', reason: 'workflow_failed', stopsRun: false };
    }
    throw error;
  }
}
