import { orderPlan, readPlan, type RefundLine, type RefundPlan } from '../db/refund-plans.ts';
import { withPlanLocked } from '../db/refunds.ts';
import type { RefundDeps } from './deps.ts';
import { refundLine, type LineResult } from './refund-line.ts';

export interface RefundOrder {
  readonly planId: number;
  readonly operator: string;
  readonly reason: string;
  readonly includeLikely: boolean;
}

export interface ExecutedLine {
  readonly line: RefundLine;
  readonly result: LineResult;
}

export type ExecutedPlan =
  /** another process executes this plan at this moment */
  | { readonly kind: 'busy' }
  | { readonly kind: 'otherEnvironment' }
  | { readonly kind: 'unknownPlan' }
  | {
      readonly kind: 'executed';
      readonly lines: readonly ExecutedLine[];
      /** lines that were not reached: Stripe refused the key, or could not be asked */
      readonly notTried: number;
      readonly stoppedBy: 'api_key_refused' | 'stripe_unreachable' | 'interrupted' | null;
    };

/** So many look-ups in a row that fail mean that Stripe is away, not that one charge is odd. */
const MAX_FAILURES_IN_A_ROW = 3;

/** Lines that an order still has something to do for. */
export function openLines(plan: RefundPlan, includeLikely: boolean): readonly RefundLine[] {
  return plan.lines.filter(
    ({ kind, state }) =>
      // What was sent is followed to its end, whatever this order is about.
      state === 'sent' ||
      state === 'indeterminate' ||
      (state === 'planned' && (kind === 'certain' || includeLikely)),
  );
}

/**
 * Gives back what the plan names, one line after the other, on somebody's order. Again, after a crash
 * or beside another process: lines that have ended are not sent again, lines that were sent are looked
 * up first, and a second executor of the same plan is told `busy`.
 */
export async function executePlan(
  deps: RefundDeps,
  order: RefundOrder,
  watch: {
    readonly onLine?: (done: ExecutedLine) => void;
    readonly interrupted?: AbortSignal;
  } = {},
): Promise<ExecutedPlan> {
  const known = await readPlan(deps.db, order.planId);
  if (known === null) return { kind: 'unknownPlan' };
  // The plan's keys and charges are of its account.
  if (known.account !== deps.account || known.liveMode !== (deps.mode === 'live')) {
    return { kind: 'otherEnvironment' };
  }
  const locked = await withPlanLocked(deps.db, order.planId, async () => {
    const plan = await readPlan(deps.db, order.planId);
    const lines = plan === null ? [] : openLines(plan, order.includeLikely);
    if (lines.length > 0) await orderPlan(deps.db, order.planId, { ...order, lines: lines.length });
    return runLines(deps, lines, { ...order, ...watch });
  });
  return locked === null ? { kind: 'busy' } : locked.result;
}

async function runLines(
  deps: RefundDeps,
  lines: readonly RefundLine[],
  order: {
    readonly operator: string;
    readonly onLine?: (done: ExecutedLine) => void;
    readonly interrupted?: AbortSignal;
  },
): Promise<ExecutedPlan> {
  const done: ExecutedLine[] = [];
  let keyRefused = false;
  let failures = 0;
  const end = (stoppedBy: Extract<ExecutedPlan, { kind: 'executed' }>['stoppedBy']) =>
    ({ kind: 'executed', lines: done, notTried: lines.length - done.length, stoppedBy }) as const;
  for (const line of lines) {
    if (order.interrupted?.aborted === true) return end('interrupted');
    const result = await refundLine(deps, line, {
      operator: order.operator,
      onKeyRefused: () => (keyRefused = true),
    });
    done.push({ line, result });
    order.onLine?.({ line, result });
    failures = result.state === 'unknown' ? failures + 1 : 0;
    if (keyRefused) return end('api_key_refused');
    if (failures >= MAX_FAILURES_IN_A_ROW) return end('stripe_unreachable');
  }
  return end(null);
}
