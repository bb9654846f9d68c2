import type { Command } from '@commander-js/extra-typings';
import { describeHousekeeping } from '../../client/housekeeping-schedule.ts';
import { EXIT } from '../exit-codes.ts';
import { withSession, type Shell } from '../shell.ts';

export function registerSweep(program: Command, shell: Shell): void {
  program
    .command('sweep')
    .description('look now at every charge whose outcome is not known, as the hourly sweep does')
    .option('--all', 'also at those that somebody has looked at within the hour')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const needs = { temporal: true, stripe: true, worker: true };
      await withSession(shell, { needs, json: options.json === true }, async (session) => {
        const { output, platform } = session;
        const client = await platform.client();
        const report = await client.sweep({ everything: options.all === true });
        const schedule = await describeHousekeeping(client.temporal);
        output.result({ ...report, nextAt: schedule?.nextAt?.toISOString() ?? null });
        output.line(
          `looked at ${report.looked}: ${report.settled} settled, ${report.leftOpen} still open; ${report.purged} old rows purged`,
        );
        if (schedule?.paused === true) output.line('the hourly sweep is paused in Temporal');
        // Open means: Stripe is still at work, or time must pass before the next look says more.
        if (report.leftOpen > 0) shell.exitCode = EXIT.unfinished;
      });
    });
}
