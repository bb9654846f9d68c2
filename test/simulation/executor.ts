// Temporal's worst behaviour on virtual time: an activity may run twice, overlap its own zombie, lose its
// result or its worker; a workflow may be forgotten while its activities go on.
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  ApplicationFailure,
  ChildWorkflowFailure,
  RetryState,
  WorkflowExecutionAlreadyStartedError,
} from '@temporalio/common';
import { msToNumber, type Duration } from '@temporalio/common/lib/time.js';
import { Fiber, runInFiber, type Strike } from './fiber.ts';
import type { ActivityFault } from './plan.ts';
import {
  copy,
  customerOf,
  failureOf,
  pauseOf,
  short,
  timedOut,
  type ActivityOptions,
  type Ended,
} from './retry.ts';
import type { World } from './world.ts';

export interface ChildOptions {
  readonly workflowId: string;
  readonly workflowIdReusePolicy?: string;
  readonly args: readonly unknown[];
}

type Work = (...args: never[]) => Promise<unknown>;
type Activities = Readonly<Record<string, (...args: never[]) => Promise<unknown>>>;

interface ActivityCall {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly options: ActivityOptions;
  readonly local: boolean;
}

interface Handler {
  readonly handle: (...args: unknown[]) => unknown;
  readonly validate: (...args: unknown[]) => void;
}

/** A silent activity or worker is noticed after this: the heartbeat, or the workflow task's time-out. */
const SILENCE_MS = 10_000;
/** A child's start, a signal or a marker travels so long. */
const SERVER_MS = 15;

class ContinueAsNew extends Error {
  readonly args: readonly unknown[];

  constructor(args: readonly unknown[]) {
    super('continue as new');
    this.args = args;
  }
}

/** One execution of a workflow. */
class Workflow {
  readonly id: string;
  readonly executor: Executor;
  readonly handlers = new Map<string, Handler>();
  handling = 0;
  forgotten = false;
  #looks = 0;

  constructor(id: string, executor: Executor) {
    this.id = id;
    this.executor = executor;
  }

  info(): object {
    this.#looks += 1;
    const { world } = this.executor;
    const suggested = world.lot(`continue ${this.id} ${this.#looks}`) < 0.03;
    return { workflowId: this.id, historyLength: 10, continueAsNewSuggested: suggested };
  }

  continueAsNew(args: readonly unknown[]): never {
    throw new ContinueAsNew(args);
  }
}

const running = new AsyncLocalStorage<Workflow>();

export function thisWorkflow(): Workflow {
  const workflow = running.getStore();
  if (workflow === undefined) throw new Error('workflow code ran outside of a workflow');
  return workflow;
}

export interface StartedWorkflow {
  readonly firstExecutionRunId: string;
  result(): Promise<unknown>;
  signal(signal: { readonly name: string }, ...args: unknown[]): Promise<void>;
}

/** Workflow IDs, retries, time-outs and lost results, as Temporal has them. */
export class Executor {
  readonly world: World;
  readonly fibers = new Set<Fiber>();
  readonly #activities: Activities;
  readonly #open = new Map<string, Workflow>();
  readonly #completed = new Set<string>();
  readonly #counts = new Map<string, number>();

  constructor(world: World, activities: Activities) {
    this.world = world;
    this.#activities = activities;
  }

  isOpen(id: string): boolean {
    return this.#open.has(id);
  }

  get openWorkflows(): readonly string[] {
    return [...this.#open.keys()];
  }

  /** Starts a workflow under its ID, or throws that it is there already. */
  async start(work: Work, options: ChildOptions): Promise<StartedWorkflow> {
    await this.world.time.sleep(SERVER_MS);
    const { workflowId: id, workflowIdReusePolicy: policy } = options;
    const refused = this.#open.has(id) || (policy !== 'ALLOW_DUPLICATE' && this.#completed.has(id));
    if (refused) {
      this.world.saw('workflow already started');
      throw new WorkflowExecutionAlreadyStartedError('already started', id, work.name);
    }
    const workflow = new Workflow(id, this);
    this.#open.set(id, workflow);
    const result = this.#run(workflow, work, options.args);
    // Whoever does not ask for the result does not get its failure.
    result.catch(() => {});
    return {
      firstExecutionRunId: id,
      result: () => this.#deliver(workflow, result, work.name),
      signal: (signal, ...args) => this.signal(id, signal.name, args),
    };
  }

  /** As `start`, for workflow code. */
  child(work: Work, options: ChildOptions): Promise<StartedWorkflow> {
    return this.start(work, { ...options, args: copy(options.args) });
  }

  async signal(id: string, name: string, args: readonly unknown[]): Promise<void> {
    await this.world.time.sleep(SERVER_MS);
    const workflow = this.#open.get(id);
    if (workflow === undefined) throw new Error(`${id} is not open`);
    void this.#handle(workflow, name, args).catch(() => {});
  }

  /** An update: validated, handled, answered. Never answered when the workflow is forgotten meanwhile. */
  async update(id: string, name: string, args: readonly unknown[]): Promise<unknown> {
    await this.world.time.sleep(SERVER_MS);
    const workflow = this.#open.get(id);
    if (workflow === undefined) throw new Error(`${id} is not open`);
    running.run(workflow, () => workflow.handlers.get(name)?.validate(...args));
    return this.#handle(workflow, name, args);
  }

  async condition(holds: () => boolean, timeout?: number | string): Promise<boolean> {
    const workflow = thisWorkflow();
    const { time } = this.world;
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- workflows pass durations
    const limit = timeout === undefined ? Infinity : time.nowMs + msToNumber(timeout as Duration);
    if (limit !== Infinity) time.after(limit - time.nowMs, () => {});
    const isMet = (): boolean => running.run(workflow, holds);
    await time.until(() => !workflow.forgotten && (time.nowMs >= limit || isMet()));
    return isMet();
  }

  /** Runs an activity as its policy says; throws ActivityFailure when the policy is spent. */
  async activity(call: ActivityCall): Promise<unknown> {
    const workflow = thisWorkflow();
    const { retry = {} } = call.options;
    for (let attempt = 1; ; attempt += 1) {
      const ended = await this.#attempt(workflow, call, attempt);
      await this.world.time.sleep(SERVER_MS);
      await this.#unlessForgotten(workflow);
      if (ended.kind === 'completed') return ended.value;
      const spent = attempt >= (retry.maximumAttempts ?? Infinity);
      if (ended.kind === 'timedOut') {
        this.world.saw(`activity time-out ${ended.type}`);
        if (spent) throw failureOf(call.name, timedOut(ended.type));
      } else {
        const { failure } = ended;
        this.world.saw(`activity failed ${failure.type ?? '?'}`);
        const final =
          failure.nonRetryable === true ||
          (retry.nonRetryableErrorTypes ?? []).includes(failure.type ?? '');
        if (final || spent) throw failureOf(call.name, failure);
      }
      await this.world.time.sleep(pauseOf(retry, attempt, ended));
      await this.#unlessForgotten(workflow);
    }
  }

  /** The worker dies: whatever it was doing stops where it is. */
  killWorker(worker: number): void {
    for (const fiber of this.fibers) {
      if (fiber.worker === worker) this.kill(fiber);
    }
  }

  kill(fiber: Fiber): void {
    fiber.kill();
    this.fibers.delete(fiber);
    this.world.database.abandon(fiber);
  }

  /** The server forgets every workflow, open and closed; activities under way do not know it. */
  forget(): void {
    for (const workflow of this.#open.values()) workflow.forgotten = true;
    this.#open.clear();
    this.#completed.clear();
  }

  async #run(workflow: Workflow, work: Work, args: readonly unknown[]): Promise<unknown> {
    const { id } = workflow;
    this.world.trace(`${short(id)} workflow starts`);
    try {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as they were given to start
      const value = await running.run(workflow, () => work(...(args as never[])));
      if (this.#open.get(id) === workflow) {
        this.#open.delete(id);
        this.#completed.add(id);
      }
      this.world.trace(`${short(id)} workflow ends ${JSON.stringify(value ?? null).slice(0, 120)}`);
      return value;
    } catch (error) {
      if (error instanceof ContinueAsNew) {
        this.world.saw('continue as new');
        workflow.handlers.clear();
        return this.#run(workflow, work, copy(error.args));
      }
      if (this.#open.get(id) === workflow) this.#open.delete(id);
      this.world.workflowFailed(id, error);
      throw error;
    }
  }

  /** The result as a parent gets it; never, when the child was forgotten. */
  async #deliver(workflow: Workflow, result: Promise<unknown>, type: string): Promise<unknown> {
    try {
      const value = await result;
      await this.world.time.sleep(SERVER_MS);
      return copy(value);
    } catch (error) {
      const cause = error instanceof Error ? error : undefined;
      throw new ChildWorkflowFailure(
        'sim',
        { workflowId: workflow.id, runId: workflow.id },
        type,
        RetryState.NON_RETRYABLE_FAILURE,
        cause,
      );
    }
  }

  async #handle(workflow: Workflow, name: string, args: readonly unknown[]): Promise<unknown> {
    const handler = workflow.handlers.get(name);
    if (handler === undefined) throw new Error(`${workflow.id} does not know ${name}`);
    workflow.handling += 1;
    try {
      return await running.run(workflow, async () => handler.handle(...args));
    } finally {
      workflow.handling -= 1;
    }
  }

  #attempt(workflow: Workflow, call: ActivityCall, attempt: number): Promise<Ended> {
    const { world } = this;
    const customer = customerOf(call.args);
    const fault = world.faults.activity(customer, call.name);
    return new Promise((resolve) => {
      let over = false;
      const limit = world.time.after(msToNumber(call.options.startToCloseTimeout), () =>
        end({ kind: 'timedOut', type: 'START_TO_CLOSE' }),
      );
      const end = (ended: Ended): void => {
        if (over) return;
        over = true;
        limit.cancel();
        resolve(ended);
      };
      const silent = (): void => {
        world.time.after(SILENCE_MS, () => end({ kind: 'timedOut', type: 'HEARTBEAT' }));
      };
      const copies = fault?.kind === 'twice' ? 2 : 1;
      for (let i = 0; i < copies; i += 1) {
        const fiber = this.#newFiber({ customer, name: call.name, attempt, fault });
        fiber.whenSilent.push(silent);
        void this.#execute(fiber, call, (ended) => {
          if (over) world.saw('zombie ended after its time-out');
          if (workflow.forgotten) world.saw('activity outlived its workflow');
          if (fault?.kind === 'resultLost') silent();
          else end(ended);
        });
      }
    });
  }

  #newFiber(of: {
    customer: string;
    name: string;
    attempt: number;
    fault: ActivityFault | null;
  }): Fiber {
    const { customer, name, attempt, fault } = of;
    const place = `${customer} ${name}`;
    const nth = (this.#counts.get(place) ?? 0) + 1;
    this.#counts.set(place, nth);
    for (const other of this.fibers) {
      if (other.customer === customer && customer !== 'run')
        this.world.saw('two at once on one slot');
    }
    const id = `${place}#${nth}`;
    const worker = Math.floor(this.world.lot(`worker ${id}`) * 2);
    const fiber = new Fiber({ id, customer, worker, attempt, strike: strikeOf(fault) });
    this.fibers.add(fiber);
    return fiber;
  }

  async #execute(fiber: Fiber, call: ActivityCall, tell: (ended: Ended) => void): Promise<void> {
    const activity = this.#activities[call.name];
    if (activity === undefined) throw new Error(`no activity ${call.name}`);
    const { world } = this;
    world.trace(`${fiber.id} starts (attempt ${fiber.attempt}, worker ${fiber.worker})`);
    let ended: Ended;
    try {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as the workflow gave them
      const args = copy(call.args) as never[];
      const value = copy(await runInFiber(fiber, () => activity(...args)));
      world.trace(`${fiber.id} answers ${JSON.stringify(value ?? null).slice(0, 160)}`);
      world.sawAnswer(call.name, value);
      ended = { kind: 'completed', value };
    } catch (error) {
      const failure =
        error instanceof ApplicationFailure ? error : ApplicationFailure.retryable(String(error));
      world.trace(`${fiber.id} fails ${failure.type ?? ''}: ${failure.message.slice(0, 120)}`);
      ended = { kind: 'failed', failure };
    }
    fiber.ended = true;
    this.fibers.delete(fiber);
    tell(ended);
  }

  async #unlessForgotten(workflow: Workflow): Promise<void> {
    if (workflow.forgotten) await new Promise<never>(() => {});
  }
}

function strikeOf(fault: ActivityFault | null): Strike | null {
  if (fault === null) return null;
  const { kind, call, when, forMs } = fault;
  return kind === 'killed' || kind === 'frozen' ? { kind, call, when, forMs } : null;
}
