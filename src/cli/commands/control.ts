import type { Command } from '@commander-js/extra-typings';
import { WorkflowNotFoundError } from '@temporalio/client';
import { runWorkflowId, type RunRef } from '../../domain/ids.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { goesOnNote } from './run.ts';
import { defaultOperator, parseRun, withSession, type Shell } from '../shell.ts';

const ORDERS = {
  pause: 'stop new claims; charges in flight finish',
  resume: 'go on with a paused run',
  stop: 'end a run with its counts; charges in flight finish',
} as const;

/** pause, resume and stop: orders to a run under way, each with who and why. */
export function registerControl(program: Command, shell: Shell): void {
  for (const order of ['pause', 'resume', 'stop'] as const) {
    program
      .command(order)
      .description(ORDERS[order])
      .argument('<period>', 'the billing period')
      .requiredOption('--reason <text>', 'why, for the audit log')
      .option('--operator <name>', 'who orders it, for the audit log', defaultOperator())
      .option('--namespace <name>', 'what is billed', 'base')
      .option('--json', 'print the result as one JSON object on the last line')
      .action(async (period, options) => {
        const run = parseRun(period, options.namespace);
        const needs = { temporal: true, stripe: true, worker: true };
        await withSession(
          shell,
          { needs, json: options.json === true },
          async ({ platform, output }) => {
            const client = await platform.client();
            const { operator, reason } = options;
            const answer = await client[order](run, { operator, reason }).catch(
              (error: unknown) => {
                throw error instanceof WorkflowNotFoundError ? notUnderWay(run, order) : error;
              },
            );
            output.result({ ...run, order, operator, reason, ...answer });
            const fires =
              answer === undefined ? '' : `: up to ${answer.chargesToFire} charges follow`;
            output.line(`${order} of ${run.period} is taken${fires}`);
            if (order === 'resume') output.line(goesOnNote(platform, run));
          },
        );
      });
  }
}

function notUnderWay(run: RunRef, order: keyof typeof ORDERS): CommandError {
  return new CommandError(
    EXIT.failed,
    `${runWorkflowId(run)} is not under way: there is nothing to ${order}. "chargeonce status ${run.period}" shows how it stands`,
  );
}
