import { assertNever } from '../domain/assert-never.ts';
import { describeAmount } from '../domain/money-text.ts';
import { readPlan, type RefundLine } from '../db/refund-plans.ts';
import type { RefundDeps } from '../refunds/deps.ts';
import {
  executePlan,
  openLines,
  type ExecutedPlan,
  type RefundOrder,
} from '../refunds/execute-plan.ts';
import { confirmed } from './confirm.ts';
import { CommandError, EXIT, type ExitCode } from './exit-codes.ts';
import { table } from './output.ts';
import type { Session, Shell } from './shell.ts';

/** Sums per currency, for people: "20.00 USD, 5.00 EUR". */
export function describeSums(sums: Readonly<Record<string, number>>): string {
  const parts = Object.entries(sums)
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([currency, amount]) => describeAmount(amount, currency));
  return parts.length === 0 ? 'nothing' : parts.join(', ');
}

export function sumsOf(
  lines: readonly { readonly currency: string; readonly amountMinor: number }[],
): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { currency, amountMinor } of lines) {
    sums[currency] = (sums[currency] ?? 0) + amountMinor;
  }
  return sums;
}

/** Asks, executes, and reports; sets the exit code. */
export async function executeAndReport(
  shell: Shell,
  session: Session,
  order: RefundOrder & { readonly deps: RefundDeps; readonly yes: boolean },
): Promise<void> {
  const { output } = session;
  const { deps, planId } = order;
  const plan = await readPlan(deps.db, planId);
  if (plan === null) throw new CommandError(EXIT.usage, `there is no refund plan ${planId}`);
  const open = openLines(plan, order.includeLikely);
  const likely = plan.lines.filter(({ kind, state }) => kind === 'likely' && state === 'planned');
  if (likely.length > 0 && !order.includeLikely) {
    output.note(`${likely.length} likely refunds are left out: --include-likely takes them too`);
  }
  if (open.length > 0) {
    const sums = describeSums(sumsOf(open));
    const count = open.length === 1 ? '1 refund' : `${open.length} refunds`;
    output.note(`plan ${planId}: ${count}, ${sums}, in ${deps.mode} mode`);
    if (!order.yes && !(await confirmed(output, `Give back ${sums}?`))) {
      output.line('nothing was sent');
      output.result({ plan: planId, executed: false });
      shell.exitCode = EXIT.usage;
      return;
    }
  }
  let done = 0;
  const executed = await executePlan(deps, order, {
    onLine: () => output.redraw(`refunds: ${(done += 1)} of ${open.length}`),
    interrupted: shell.interrupted,
  });
  output.redraw('');
  shell.exitCode = report(session, planId, executed);
}

function report({ output }: Session, planId: number, executed: ExecutedPlan): ExitCode {
  switch (executed.kind) {
    case 'unknownPlan':
      throw new CommandError(EXIT.usage, `there is no refund plan ${planId}`);
    case 'otherEnvironment':
      throw new CommandError(EXIT.usage, `plan ${planId} was made for another account or mode`);
    case 'busy':
      throw new CommandError(
        EXIT.unfinished,
        `plan ${planId} is being executed by another process at this moment: nothing was sent`,
      );
    case 'executed':
      break;
    default:
      return assertNever(executed);
  }
  const { lines, notTried, stoppedBy } = executed;
  const of = (state: string): RefundLine[] =>
    lines.filter(({ result }) => result.state === state).map(({ line }) => line);
  const refunded = of('refunded');
  const failed = of('failed').length;
  const unknown =
    ['indeterminate', 'unknown', 'taken', 'left'].reduce((sum, one) => sum + of(one).length, 0) +
    notTried;
  output.result({
    plan: planId,
    executed: true,
    refunded: refunded.length,
    refundedMinorByCurrency: sumsOf(refunded),
    skipped: of('skipped').length,
    failed,
    unknown,
    stoppedBy,
    lines: lines.map(({ line, result }) => ({
      line: line.line,
      charge: line.chargeId,
      amountMinor: line.amountMinor,
      currency: line.currency,
      ...result,
    })),
  });
  const odd = lines.filter(({ result }) => result.state !== 'refunded');
  if (odd.length > 0) {
    output.line(
      table(
        ['line', 'charge', 'amount', 'state', 'reason'],
        odd.map(({ line, result }) => [
          line.line,
          line.chargeId,
          describeAmount(line.amountMinor, line.currency),
          result.state,
          'reason' in result ? result.reason : '',
        ]),
      ),
    );
  }
  const sums = describeSums(sumsOf(refunded));
  output.line(
    `plan ${planId}: ${refunded.length} given back (${sums}), ${of('skipped').length} skipped, ${failed} failed, ${unknown} open`,
  );
  if (stoppedBy !== null) output.note(`stopped: ${stoppedBy.replaceAll('_', ' ')}`);
  if (unknown > 0)
    output.note('run the same command again: it asks Stripe before it sends anything');
  if (stoppedBy === 'interrupted') return EXIT.interrupted;
  if (unknown > 0) return EXIT.unfinished;
  return failed > 0 ? EXIT.failed : EXIT.ok;
}
