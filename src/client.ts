import { randomUUID } from 'node:crypto';
import {
  Client,
  Connection,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  type ConnectionOptions,
  type WorkflowHandle,
} from '@temporalio/client';
import type { RerunAnswer } from './domain/charge.ts';
import {
  BILLING_TASK_QUEUE,
  customerWorkflowId,
  HOUSEKEEPING_ID,
  runWorkflowId,
  type RunRef,
  type SlotRef,
} from './domain/ids.ts';
import type { SweepReport } from './domain/sweep.ts';
import type { customerCharge } from './workflows/customer-charge.ts';
import type { housekeeping, HousekeepingInput } from './workflows/housekeeping.ts';
import type { billingRun, RunInput } from './workflows/billing-run.ts';
import {
  pauseRunUpdate,
  progressQuery,
  rerunCustomerSignal,
  rerunCustomerUpdate,
  resumeRunUpdate,
  stopRunUpdate,
  type OperatorOrder,
  type ResumeAnswer,
  type RunProgress,
} from './workflows/messages.ts';
import { runSearchAttributes } from './workflows/search-attributes.ts';

export interface RunClientOptions {
  readonly connection: ConnectionOptions;
  readonly namespace: string;
}

/** What start answers: a new run, or the one that is going already. */
export type StartAnswer = {
  readonly kind: 'started' | 'alreadyRunning' | 'completedBefore';
  readonly workflowId: string;
};

export interface RerunRequest extends SlotRef, OperatorOrder {
  /** the same id again is the same order; made here when not given */
  readonly requestId?: string | undefined;
}

export interface RunOrder extends OperatorOrder {
  /** Temporal takes an order of this id once; made by Temporal when not given */
  readonly orderId?: string;
}

/** The only door to Temporal for CLI, server and tests: starts runs, gives orders, reads progress. */
export class RunClient {
  readonly temporal: Client;
  readonly #connection: Connection;

  private constructor(connection: Connection, namespace: string) {
    this.#connection = connection;
    this.temporal = new Client({ connection, namespace });
  }

  static async connect(options: RunClientOptions): Promise<RunClient> {
    const connection = await Connection.connect(options.connection);
    return new RunClient(connection, options.namespace);
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  /**
   * Starts the period's run, or attaches to the one under way. One that ended is not started again,
   * unless the caller knows from the run's row that it was stopped by an operator and says so: then it
   * goes on where it was, and the slots decide who is charged.
   */
  async startRun(
    run: RunRef,
    startedBy: string,
    options: { readonly goOnAfterStop?: boolean } = {},
  ): Promise<StartAnswer> {
    const workflowId = runWorkflowId(run);
    try {
      await this.temporal.workflow.start<typeof billingRun>('billingRun', {
        ...startOptions(run, startedBy),
        workflowIdReusePolicy:
          options.goOnAfterStop === true ? 'ALLOW_DUPLICATE' : 'ALLOW_DUPLICATE_FAILED_ONLY',
      });
      return { kind: 'started', workflowId };
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      const { status } = await this.run(run).describe();
      const running = status.name === 'RUNNING' || status.name === 'CONTINUED_AS_NEW';
      return { kind: running ? 'alreadyRunning' : 'completedBefore', workflowId };
    }
  }

  /** The period's workflow, whichever of its Temporal runs is the latest. */
  run(run: RunRef): WorkflowHandle<typeof billingRun> {
    return this.temporal.workflow.getHandle<typeof billingRun>(runWorkflowId(run));
  }

  /** Phase and counts as the run knows them; null when Temporal has no such run. Needs a live worker. */
  async progress(run: RunRef): Promise<RunProgress | null> {
    try {
      return await this.run(run).query(progressQuery);
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return null;
      throw error;
    }
  }

  /**
   * Orders a rerun and returns the run's answer. Works while the run is open and after it closed: the
   * root is then started again under its own ID and serves this order and nobody else. Sent twice with one request
   * id: one answer, one rerun.
   */
  async rerunCustomer(request: RerunRequest): Promise<RerunAnswer> {
    const startOperation = new WithStartWorkflowOperation<typeof billingRun>('billingRun', {
      ...startOptions(request, request.operator, { onlyReruns: true }),
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      workflowIdConflictPolicy: 'USE_EXISTING',
    });
    return this.temporal.workflow.executeUpdateWithStart(rerunCustomerUpdate, {
      args: [messageOf(request)],
      startWorkflowOperation: startOperation,
    });
  }

  /** The same order without waiting for an answer. */
  async signalRerun(request: RerunRequest): Promise<void> {
    await this.temporal.workflow.signalWithStart('billingRun', {
      ...startOptions(request, request.operator, { onlyReruns: true }),
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      signal: rerunCustomerSignal,
      signalArgs: [messageOf(request)],
    });
  }

  /**
   * Has one customer looked at: Stripe is asked, what it shows is recorded, nothing is sent. Under the
   * customer's own workflow ID, so it never runs beside a charge. Twice: the second looks again.
   */
  async lookAtCustomer(slot: SlotRef): Promise<'started' | 'alreadyRunning'> {
    const { namespace, period, customerId } = slot;
    try {
      await this.temporal.workflow.start<typeof customerCharge>('customerCharge', {
        workflowId: customerWorkflowId(slot),
        taskQueue: BILLING_TASK_QUEUE,
        args: [{ namespace, period, customerId }, { readOnly: true }],
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        staticSummary: `${customerId} · ${period} · look`,
        typedSearchAttributes: runSearchAttributes(slot),
      });
      return 'started';
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) return 'alreadyRunning';
      throw error;
    }
  }

  /**
   * Sweeps now, beside the hourly Schedule, and waits for the result. Two at once of one kind: the second
   * joins the first.
   */
  async sweep(input: HousekeepingInput): Promise<SweepReport> {
    const handle = await this.temporal.workflow.start<typeof housekeeping>('housekeeping', {
      workflowId: `${HOUSEKEEPING_ID}-${input.everything === true ? 'everything' : 'by-hand'}`,
      taskQueue: BILLING_TASK_QUEUE,
      args: [input],
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      workflowIdConflictPolicy: 'USE_EXISTING',
      staticSummary: 'sweep ordered by hand',
    });
    return handle.result();
  }

  /** Stops new claims; charges in flight finish. The same order id again is the same order. */
  async pause(run: RunRef, order: RunOrder): Promise<void> {
    await this.run(run).executeUpdate(pauseRunUpdate, updateOf(order));
  }

  /** Goes on, and says how many charges may follow. The same order id again is the same order, with its answer. */
  async resume(run: RunRef, order: RunOrder): Promise<ResumeAnswer> {
    return this.run(run).executeUpdate(resumeRunUpdate, updateOf(order));
  }

  /** Ends the run with its counts; charges in flight finish. The same order id again is the same order. */
  async stop(run: RunRef, order: RunOrder): Promise<void> {
    await this.run(run).executeUpdate(stopRunUpdate, updateOf(order));
  }
}

function updateOf({ operator, reason, orderId }: RunOrder) {
  const args: [OperatorOrder] = [{ operator, reason }];
  return orderId === undefined ? { args } : { args, updateId: orderId };
}

function startOptions(run: RunRef, startedBy: string, purpose: { onlyReruns?: true } = {}) {
  const input: RunInput = { namespace: run.namespace, period: run.period, startedBy, ...purpose };
  return {
    workflowId: runWorkflowId(run),
    taskQueue: BILLING_TASK_QUEUE,
    args: [input] as [RunInput],
    staticSummary: `billing run ${run.period} (${run.namespace})`,
    typedSearchAttributes: runSearchAttributes(run),
  };
}

function messageOf(request: RerunRequest) {
  const { customerId, operator, reason } = request;
  return { customerId, operator, reason, requestId: request.requestId ?? randomUUID() };
}
