import {
  ActivityFailure,
  ApplicationFailure,
  log,
  patched,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { parseCustomerId, type CustomerId } from '../domain/customer-id.ts';
import { CAP_EXCEEDED, type RerunAnswer, type RerunOrder } from '../domain/charge.ts';
import type { LoggedOrder } from '../activities/run.ts';
import { FAILURES } from '../domain/failures.ts';
import {
  pauseRunUpdate,
  progressQuery,
  rerunCustomerSignal,
  rerunCustomerUpdate,
  resumeRunUpdate,
  shardReportSignal,
  stopRunUpdate,
  type OperatorOrder,
  type RerunMessage,
  type ShardMode,
} from './messages.ts';
import {
  decideRerun,
  decideRerunLocally,
  logOrder,
  readTotals,
  RERUN_PRIORITY,
  START_AGAIN,
} from './policies.ts';
import type { RunState } from './run-state.ts';
import { runCustomer } from './start-child.ts';

/** Longest text of an operator's that travels in a message. */
const MAX_TEXT = 500;

/** Wires a run's signals, updates and query to its state. Call before the first await. */
export function serveMessages(
  state: RunState,
  control: { readonly setShardMode: (mode: ShardMode) => Promise<void> },
): void {
  setHandler(progressQuery, () => state.progress());
  setHandler(shardReportSignal, async (report) => {
    state.report(report);
    if (report.stopsRun === null || state.mode !== 'running') return;
    state.setMode('paused', `paused by itself: ${report.stopsRun}. ${remedyFor(report.stopsRun)}`);
    await control.setShardMode('paused');
  });
  setHandler(rerunCustomerSignal, async (message) => {
    // A signal has no way to refuse: what is malformed is dropped, and the update says why.
    const problem = problemOf(message);
    if (problem !== null) return log.warn('rerun signal dropped', { problem });
    try {
      await rerun(state, message);
    } catch (error) {
      // One bad order must not fail the run of everybody else.
      if (!(error instanceof ApplicationFailure)) throw error;
      log.error('rerun signal refused', { type: error.type, problem: error.message });
    }
  });
  setHandler(rerunCustomerUpdate, (message) => rerun(state, message), {
    validator: (message) => refuse(problemOf(message)),
  });
  setHandler(
    pauseRunUpdate,
    async (order) => {
      // Takes effect before it is logged: the database may be what is wrong.
      state.setMode('paused', `paused by ${order.operator}: ${order.reason}`);
      await control.setShardMode('paused');
      await logOrder(state.run, { action: 'run.paused', ...order });
    },
    { validator: (order) => refuse(orderProblem(order) ?? notWhile(state, 'stopped')) },
  );
  setHandler(
    resumeRunUpdate,
    async (order) => {
      const before = state.orders();
      const logged: LoggedOrder | undefined = await logOrder(state.run, {
        action: 'run.resumed',
        ...order,
      });
      const totals = await readTotals(state.run);
      // Whoever paused or stopped it meanwhile has the last word.
      if (state.orders() !== before) {
        await holdAgain(state, order.operator);
        refuse('another order came in meanwhile; look, then resume again');
      }
      // Workers of before the vault do not say it, nor do old histories.
      if ((logged?.unblocked ?? 0) > 0) state.settleSoon();
      state.setMode('running', null);
      await control.setShardMode('running');
      return { chargesToFire: totals.open };
    },
    { validator: (order) => refuse(orderProblem(order) ?? notWhile(state, 'stopped')) },
  );
  setHandler(
    stopRunUpdate,
    async (order) => {
      state.setMode('stopped', `stopped by ${order.operator}: ${order.reason}`);
      await control.setShardMode('stopped');
      await logOrder(state.run, { action: 'run.stop_ordered', ...order });
    },
    { validator: (order) => refuse(orderProblem(order)) },
  );
}

function remedyFor(reason: string): string {
  return reason === CAP_EXCEEDED
    ? 'Find out why the cap was reached; raise it (chargeonce vault keys raise), then resume the run.'
    : 'Mend it, then resume the run.';
}

/** Marks runs that write a late resume's refusal into their row. */
const REFUSED_RESUME_HOLDS = 'refused-resume-holds';

/** A resume that is refused was logged already, so the row, which the sweep goes by, has to say again that the run is held. */
async function holdAgain(state: RunState, operator: string): Promise<void> {
  if (state.mode === 'running' || !patched(REFUSED_RESUME_HOLDS)) return;
  const action = state.mode === 'paused' ? 'run.paused' : 'run.stop_ordered';
  const reason = 'a resume came too late; the order before it stands';
  await logOrder(state.run, { action, operator, reason });
}

/** Decides in the database, answers, and lets the customer's workflow go on behind the answer. */
async function rerun(state: RunState, message: RerunMessage): Promise<RerunAnswer> {
  state.rerunsOpen += 1;
  try {
    const slot = { ...state.run, customerId: message.customerId };
    const { requestId, operator, reason } = message;
    const answer = await decide({ ...slot, requestId, operator, reason });
    if (answer === 'accepted' || answer === 'inDoubt') {
      state.rerunsOpen += 1;
      void attend(state, message.customerId);
    }
    return answer;
  } finally {
    state.rerunsOpen -= 1;
  }
}

/** Marks runs whose orders are decided by a normal activity, see policies.ts. */
const DECIDED_BY_ACTIVITY = 'rerun-decided-by-activity';

async function decide(order: RerunOrder): Promise<RerunAnswer> {
  try {
    return await (patched(DECIDED_BY_ACTIVITY) ? decideRerun(order) : decideRerunLocally(order));
  } catch (error) {
    // The caller is told what the activity said, not that an activity failed.
    if (error instanceof ActivityFailure && error.cause instanceof ApplicationFailure)
      throw error.cause;
    throw error;
  }
}

/**
 * Runs the customer's workflow again under its own ID. The same order again finds the slot charged or
 * its workflow open, and charges nobody.
 */
async function attend(state: RunState, customerId: CustomerId): Promise<void> {
  try {
    const result = await runCustomer(
      { ...state.run, customerId },
      {
        workflowIdReusePolicy: START_AGAIN,
        priority: RERUN_PRIORITY,
        summary: `${customerId} · ${state.run.period} · rerun`,
      },
    );
    if (result === null || result.outcome === 'indeterminate') state.rerunEndedUnknown();
  } catch {
    // Nobody awaits this line: what it could not do is left to a settle round, which reads the slot.
    state.rerunEndedUnknown();
  } finally {
    state.rerunsOpen -= 1;
  }
}

/** Temporal rejects signals beyond 10,000 and updates beyond 2,000 per Temporal run; ask again before that. */
const MAX_HISTORY_FOR_MESSAGES = 10_000;

function problemOf(message: RerunMessage): string | null {
  const id = parseCustomerId(String(message?.customerId ?? ''));
  if (!id.ok) return id.problem;
  if (!/^[\x21-\x7e]{1,128}$/.test(message.requestId ?? '')) {
    return 'requestId must be 1 to 128 printable ASCII characters without spaces';
  }
  if (workflowInfo().historyLength > MAX_HISTORY_FOR_MESSAGES) {
    return 'this run has taken too many messages; ask again when it has completed';
  }
  return orderProblem(message);
}

function orderProblem(order: OperatorOrder): string | null {
  for (const field of ['operator', 'reason'] as const) {
    const text: unknown = order?.[field];
    if (typeof text !== 'string' || text.trim() === '' || text.length > MAX_TEXT) {
      return `${field} must say who or why, in 1 to ${MAX_TEXT} characters`;
    }
    // Postgres takes no NUL, and a log no line break that somebody else chose.
    if (/\p{Cc}/u.test(text)) return `${field} must not contain control characters`;
  }
  return null;
}

function notWhile(state: RunState, mode: ShardMode): string | null {
  return state.mode === mode ? `the run is ${mode}: start it again instead` : null;
}

function refuse(problem: string | null): void {
  if (problem !== null) throw ApplicationFailure.nonRetryable(problem, FAILURES.invalidMessage);
}
