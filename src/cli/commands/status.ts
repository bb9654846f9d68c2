import type { Command } from '@commander-js/extra-typings';
import { listInReview } from '../../db/dossier.ts';
import { readReasons, readRunSummary, type RunSummary } from '../../db/run-summary.ts';
import { readLastSweep } from '../../db/sweep.ts';
import { readWebhookCounts, type WebhookCounts } from '../../db/webhook-events.ts';
import { runWorkflowId } from '../../domain/ids.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { bold, table, yellow } from '../output.ts';
import { formatReasons } from '../run-report.ts';
import { parseRun, withSession, type Shell } from '../shell.ts';
import { describeAmount } from '../../domain/money-text.ts';

/** Slots in review that status names; all of them are in the database. */
const MAX_SHOWN = 20;

function heldLine({ control, controlNote }: RunSummary): string {
  return `the run is ${controlNote ?? control}`;
}

function sweepLine(sweep: Awaited<ReturnType<typeof readLastSweep>>): string {
  if (sweep === null) return 'no sweep has passed yet; workers see to an hourly one';
  return (
    `last sweep ${sweep.at.toISOString()}: looked at ${sweep.looked} of all periods, ` +
    `${sweep.settled} settled, ${sweep.leftOpen} still open`
  );
}

function reviewLine(
  period: string,
  { customerId, reason }: { readonly customerId: string; readonly reason: string | null },
): string {
  const why = reason ?? 'unknown';
  return `${customerId} waits for a person (${why}): chargeonce resolve ${period} ${customerId}`;
}

function inboxLine({ received, parked, oldestWaiting }: WebhookCounts): string {
  const since = oldestWaiting === null ? '' : `, the oldest since ${oldestWaiting.toISOString()}`;
  return `events of all periods that wait: ${received} to be processed, ${parked} for their slot${since}`;
}

export function registerStatus(program: Command, shell: Shell): void {
  program
    .command('status')
    .description('show how a period stands, from the database')
    .argument('<period>', 'the billing period')
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (period, options) => {
      const run = parseRun(period, options.namespace);
      await withSession(shell, { needs: {}, json: options.json === true }, async (session) => {
        const { db } = session.platform.database;
        const summary = await readRunSummary(db, run);
        if (summary === null) {
          throw new CommandError(
            EXIT.failed,
            `${run.period} (${run.namespace}) is not planned here yet: "chargeonce run ${run.period} --wait" starts it, or goes on with it`,
          );
        }
        const reasons = await readReasons(db, run);
        const sweep = await readLastSweep(db);
        const review = await listInReview(db, run, MAX_SHOWN);
        const events = await readWebhookCounts(db);
        const { output } = session;
        output.result({
          ...run,
          ...summary,
          ...summary.counts,
          reasons,
          sweep,
          review,
          webhooks: events,
          workflowId: runWorkflowId(run),
        });
        output.line(
          `${bold(runWorkflowId(run))} is ${summary.state}, planned ${summary.plannedAt.toISOString()}`,
        );
        if (summary.control !== 'running') output.line(yellow(heldLine(summary)));
        output.line(
          table(
            ['what', 'customers'],
            [
              ...Object.entries(summary.counts),
              ['in progress', summary.inProgress],
              ['  of the indeterminate: processing at the bank', summary.processing],
              ['in review', summary.inReview],
              ['not claimed yet', summary.unclaimed],
              ['all', summary.customers],
            ],
          ),
        );
        const money = Object.entries(summary.expectedMinorByCurrency).map(
          ([currency, expected]) => [
            currency.toUpperCase(),
            describeAmount(summary.chargedMinorByCurrency[currency] ?? 0, currency),
            describeAmount(expected, currency),
          ],
        );
        if (money.length > 0) output.line(table(['currency', 'charged', 'expected'], money));
        if (reasons.length > 0) output.line(formatReasons(reasons));
        for (const waiting of review) output.line(yellow(reviewLine(run.period, waiting)));
        output.line(sweepLine(sweep));
        if (events.received + events.parked > 0) output.line(inboxLine(events));
      });
    });
}
