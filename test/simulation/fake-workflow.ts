// What src/workflows sees of @temporalio/workflow in the simulation: the same names, served by the
// executor. Failures, enums and definitions are the SDK's own.
import { thisWorkflow, type ChildOptions } from './executor.ts';
import type { ActivityOptions } from './retry.ts';

// Whatever is not replaced below and needs a workflow around it fails when it is called.
export * from '@temporalio/workflow';

type Work = (...args: never[]) => Promise<unknown>;
type Definition = { readonly name: string };

function proxy(options: ActivityOptions, local: boolean): object {
  return new Proxy(
    {},
    {
      get:
        (_, name) =>
        async (...args: unknown[]) =>
          thisWorkflow().executor.activity({ name: String(name), args, options, local }),
    },
  );
}

export const proxyActivities = (options: ActivityOptions): object => proxy(options, false);
export const proxyLocalActivities = (options: ActivityOptions): object => proxy(options, true);

export async function executeChild(work: Work, options: ChildOptions): Promise<unknown> {
  return (await thisWorkflow().executor.child(work, options)).result();
}

export async function startChild(work: Work, options: ChildOptions): Promise<unknown> {
  return thisWorkflow().executor.child(work, options);
}

export function getExternalWorkflowHandle(id: string): object {
  const { executor } = thisWorkflow();
  return {
    signal: async (signal: Definition, ...args: unknown[]) =>
      executor.signal(id, signal.name, args),
  };
}

export function setHandler(
  definition: Definition,
  handle: (...args: unknown[]) => unknown,
  options: { readonly validator?: (...args: unknown[]) => void } = {},
): void {
  const { validator } = options;
  thisWorkflow().handlers.set(definition.name, { handle, validate: validator ?? (() => {}) });
}

export const allHandlersFinished = (): boolean => thisWorkflow().handling === 0;

export async function condition(holds: () => boolean, timeout?: number | string): Promise<boolean> {
  return thisWorkflow().executor.condition(holds, timeout);
}

export async function sleep(duration: number | string): Promise<void> {
  await thisWorkflow().executor.condition(() => false, duration);
}

export function workflowInfo(): object {
  return thisWorkflow().info();
}

export async function continueAsNew(...args: unknown[]): Promise<never> {
  return thisWorkflow().continueAsNew(args);
}

/** Every history of the simulation is new. */
export const patched = (): boolean => true;
export const deprecatePatch = (): void => {};

/** Nobody cancels a customer's workflow in the simulation; workers and histories are lost instead. */
export const CancellationScope = {
  nonCancellable: <T>(work: () => Promise<T>): Promise<T> => work(),
};

export function setCurrentDetails(): void {}
export function upsertSearchAttributes(): void {}
export const log = { warn() {}, error() {}, info() {}, debug() {} };
