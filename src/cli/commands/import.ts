import { stat } from 'node:fs/promises';
import type { Command } from '@commander-js/extra-typings';
import { importCustomers } from '../../import/import-customers.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { table } from '../output.ts';
import { defaultOperator, withSession, type Shell } from '../shell.ts';

/** Bad lines shown to a person; --json has all that were kept. */
const SHOWN_PROBLEMS = 20;

export function registerImport(program: Command, shell: Shell): void {
  program
    .command('import')
    .description('import what is due')
    .command('customers')
    .description(
      'import customers from a CSV file: all lines or none; periods already planned stay as they are',
    )
    .argument(
      '<file>',
      'CSV: customer_id,stripe_customer_id,payment_method_id,amount,currency[,description,active]; "-" reads stdin',
    )
    .option('--operator <name>', 'who imports, for the audit log', defaultOperator())
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (file, options) => {
      if (file !== '-') await requireFile(file);
      await withSession(shell, { needs: {}, json: options.json === true }, async (session) => {
        const { output, platform } = session;
        const input = file === '-' ? process.stdin : file;
        const done = await importCustomers({
          db: platform.database.db,
          input,
          actor: options.operator,
        });
        output.result(done);
        if (!done.ok) {
          shell.exitCode = EXIT.usage;
          const found = done.problemCount === 1 ? '1 problem' : `${done.problemCount} problems`;
          output.note(`nothing was imported: ${found} in ${file === '-' ? 'stdin' : file}`);
          const shown = done.problems.slice(0, SHOWN_PROBLEMS);
          output.line(
            table(
              ['line', 'column', 'problem'],
              shown.map((at) => [at.line, at.column, at.message]),
            ),
          );
          const more = done.problemCount - shown.length;
          if (more > 0) output.line(`… and ${more} more (--json shows up to 1,000)`);
          return;
        }
        for (const warning of done.warnings) output.note(`warning: ${warning}`);
        output.line(
          `${done.rows} customers: ${done.inserted} new, ${done.updated} changed, ${done.unchanged} unchanged`,
        );
      });
    });
}

/** A misspelled name is told at once, before a database is brought up for it. */
async function requireFile(file: string): Promise<void> {
  const found = await stat(file).catch(() => null);
  if (found === null) throw new CommandError(EXIT.usage, `there is no file ${file}`);
  if (found.isDirectory())
    throw new CommandError(EXIT.usage, `${file} is a folder, not a CSV file`);
}
