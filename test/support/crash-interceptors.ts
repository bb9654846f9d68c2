import {
  proxySinks,
  workflowInfo,
  type Sinks,
  type WorkflowInterceptorsFactory,
} from '@temporalio/workflow';

interface CrashSinks extends Sinks {
  readonly crash: { readonly at: (point: string) => void };
}

const { crash } = proxySinks<CrashSinks>();

/**
 * Workflow code of the crash tests: tells the worker when a workflow task is about to end with a continue-as-new, or with
 * the start of a run. The SDK awaits the call before it sends the task's commands, so the worker can hold them there.
 */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  outbound: [
    {
      continueAsNew(input, next) {
        crash.at('duringContinueAsNew');
        return next(input);
      },
      startChildWorkflowExecution(input, next) {
        if (workflowInfo().workflowType === 'billingTick') crash.at('beforeRunStarted');
        return next(input);
      },
    },
  ],
});
