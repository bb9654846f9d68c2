import {
  ChildWorkflowFailure,
  executeChild,
  getExternalWorkflowHandle,
  isCancellation,
  type ChildWorkflowHandle,
  type ChildWorkflowOptions,
  type Workflow,
} from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import type { CustomerResult } from '../domain/charge.ts';
import { customerWorkflowId, type SlotRef } from '../domain/ids.ts';
import { customerCharge, type CustomerOptions } from './customer-charge.ts';
import { shardModeSignal, type ShardMode } from './messages.ts';
import { runSearchAttributes } from './search-attributes.ts';

/**
 * Runs one customer's workflow to its end. Null when its ID is open or has completed: somebody has this
 * customer, and the slot's row says how it ended. A child that failed is unknown, not "not charged".
 */
export async function runCustomer(
  slot: SlotRef,
  options: Pick<ChildWorkflowOptions, 'workflowIdReusePolicy' | 'priority'> & {
    summary: string;
    look?: CustomerOptions;
  },
): Promise<CustomerResult | null> {
  const { summary, look, ...rest } = options;
  const ref: SlotRef = {
    namespace: slot.namespace,
    period: slot.period,
    customerId: slot.customerId,
  };
  try {
    return await executeChild(customerCharge, {
      ...rest,
      workflowId: customerWorkflowId(slot),
      args: look === undefined ? [ref] : [ref, look],
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

/** The nodes below a run or group: which are under way, and what they may do. */
export interface NodeControl {
  /** workflow IDs under way, for whoever passes on a change of mode */
  readonly nodes: Set<string>;
  readonly mode: () => ShardMode;
}

/**
 * Runs a shard, group or settle round to its end. One that is there already or fails leaves open slots,
 * which the next settle round goes through: it never fails its parent.
 */
export async function runNode<T extends Workflow>(
  workflowId: string,
  start: () => Promise<ChildWorkflowHandle<T>>,
  control: NodeControl,
): Promise<void> {
  const told = control.mode();
  control.nodes.add(workflowId);
  try {
    const child = await start();
    // A change of mode that came before the start was confirmed found nobody to tell.
    if (control.mode() !== told)
      await child.signal(shardModeSignal, control.mode()).catch(() => {});
    await child.result();
  } catch (error) {
    if (isCancellation(error)) throw error;
    const leftOpen =
      error instanceof ChildWorkflowFailure ||
      error instanceof WorkflowExecutionAlreadyStartedError;
    if (!leftOpen) throw error;
  } finally {
    control.nodes.delete(workflowId);
  }
}

/** Tells the nodes under way. One that has just closed needs no telling. */
export async function tellNodes(nodes: ReadonlySet<string>, mode: ShardMode): Promise<void> {
  await Promise.allSettled(
    [...nodes].map((id) => getExternalWorkflowHandle(id).signal(shardModeSignal, mode)),
  );
}
