import type { Command } from '@commander-js/extra-typings';
import { auditAndPrint } from '../audit-run.ts';
import { parseRun, withSession, type Shell } from '../shell.ts';

export function registerAudit(program: Command, shell: Shell): void {
  program
    .command('audit')
    .description(
      "compare our database, the provider's own list and Temporal's histories for a period",
    )
    .argument('<period>', 'the billing period')
    .option('--namespace <name>', 'what is billed', 'base')
    .option(
      '--without-temporal',
      'let two witnesses decide, when the histories are past their retention',
    )
    .option('--json', 'print the report as one JSON object on the last line')
    .action(async (period, options) => {
      const run = parseRun(period, options.namespace);
      const needs = { temporal: options.withoutTemporal !== true, stripe: true };
      await withSession(shell, { needs, json: options.json === true }, async (session) => {
        const withoutTemporal = options.withoutTemporal === true;
        const { exitCode, ...report } = await auditAndPrint(session, run, { withoutTemporal });
        session.output.result(report);
        shell.exitCode = exitCode;
      });
    });
}
