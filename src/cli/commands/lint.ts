import path from 'node:path';
import { Option, type Command } from '@commander-js/extra-typings';
import {
  countsOf,
  jsonReport,
  lintFiles,
  sarifReport,
  sourceFilesAt,
  textReport,
  type LintReport,
} from '../../lint/index.ts';
import { VERSION } from '../../version.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-codes.ts';
import { processOutput, type Output } from '../output.ts';
import type { Shell } from '../shell.ts';

const FORMATS = ['text', 'json', 'sarif'] as const;
/** Redrawing for each file would cost more than looking at it. */
const REDRAW_EVERY = 25;
/** Where nobody watches, a long run says now and then that it goes on. */
const NOTE_EVERY = 2_000;

export function registerLint(program: Command, shell: Shell): void {
  program
    .command('lint')
    .description(
      'find, in the source of a program, idempotency keys that are made anew for each try, and Stripe calls without one',
    )
    .argument('<paths...>', 'files and folders; in folders .ts .tsx .js .jsx .mjs .cjs .mts .cts')
    .addOption(
      new Option('--format <format>', 'how to tell it').choices(FORMATS).default('text' as const),
    )
    .option('--json', 'the same as --format json: one JSON object on the last line')
    .option('--errors-only', 'leave warnings out')
    .option(
      '--ignore <glob>',
      'leave out files whose path fits; may be given more than once',
      (glob: string, before: readonly string[] | undefined) => [...(before ?? []), glob],
    )
    .addHelpText(
      'after',
      '\nA place that is right as it is: // chargeonce-lint-disable-next-line RULE -- REASON\n' +
        'Exit codes: 0 nothing found · 1 something found · 2 bad input, or nothing found and some file does not parse\n' +
        'docs/lint.md has the rules, and what cannot be seen.',
    )
    .action(async (paths, options) => {
      const format = options.json === true ? 'json' : options.format;
      const output = processOutput(format !== 'text');
      const files = await filesOf(paths, options.ignore ?? []);
      const whole = await lintFiles(files, {
        signal: shell.interrupted,
        onProgress: (done) => progress(output, done, files.length),
      });
      output.redraw('');
      const report = options.errorsOnly === true ? withoutWarnings(whole) : whole;
      if (format === 'sarif')
        output.result(sarifReport(report, { version: VERSION, folder: process.cwd() }));
      else if (format === 'json') output.result(jsonReport(report));
      else for (const line of textReport(report)) output.line(line);
      shell.exitCode = exitCodeOf(report);
    });
}

async function filesOf(paths: readonly string[], ignored: readonly string[]): Promise<string[]> {
  const all = new Set<string>();
  for (const place of paths) {
    const found = await sourceFilesAt(place).catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      throw new CommandError(EXIT.usage, `${place} cannot be read: ${why}`, error);
    });
    for (const file of found) all.add(file);
  }
  const left = [...all].filter((file) => !ignored.some((glob) => path.matchesGlob(file, glob)));
  if (left.length === 0)
    throw new CommandError(EXIT.usage, `there are no source files at ${paths.join(', ')}`);
  return left;
}

function progress(output: Output, done: number, files: number): void {
  if (done % REDRAW_EVERY === 0) output.redraw(`looking through files: ${done}/${files}`);
  if (!output.interactive && done % NOTE_EVERY === 0) output.note(`· ${done}/${files} files`);
}

function withoutWarnings(report: LintReport): LintReport {
  return { ...report, findings: report.findings.filter(({ severity }) => severity === 'error') };
}

/** What was found counts more than what could not be looked at; a file that nobody looked at is no success. */
function exitCodeOf(report: LintReport): ExitCode {
  if (report.interrupted) return EXIT.interrupted;
  const { errors, warnings } = countsOf(report);
  if (errors + warnings > 0) return EXIT.failed;
  return report.problems.length > 0 ? EXIT.usage : EXIT.ok;
}
