import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Command } from '@commander-js/extra-typings';
import { EXIT, type ExitCode } from '../exit-codes.ts';
import type { Shell } from '../shell.ts';

const GALLERY = fileURLToPath(new URL('../../../failures/main.ts', import.meta.url));

/** `failures`: the gallery of known ways to charge twice. A process of its own, since nothing of ours depends on it. */
export function registerFailures(program: Command, shell: Shell): void {
  program
    .command('failures')
    .description(
      'run every known way to charge twice against a simulator, and the same through chargeonce',
    )
    .argument(
      '[names...]',
      'exhibits by name, number or room (A to G); all of them when none is given',
    )
    .option('--list', 'name the exhibits and run none')
    .option('--timeline', 'also print the requests as they reached Stripe')
    .option(
      '--json',
      'one JSON object for each exhibit, and {"exhibits","naiveFailures","oursFailures"} on the last line',
    )
    .addHelpText(
      'after',
      '\nExit code 1 when a tempting way stops failing, or ours fails. docs/failures/ has a page for each.',
    )
    .action(async (names, options) => {
      const flags = (['list', 'timeline', 'json'] as const)
        .filter((flag) => options[flag] === true)
        .map((flag) => `--${flag}`);
      const child = spawn(
        process.execPath,
        ['--disable-warning=ExperimentalWarning', GALLERY, ...flags, '--', ...names],
        // The channel ends with this process, however it ends, and then the gallery ends as well.
        { stdio: ['inherit', 'inherit', 'inherit', 'ipc'], env: shell.env },
      );
      // Ctrl-C reaches the whole group by itself; a signal to this process alone is passed on.
      shell.interrupted.addEventListener('abort', () => child.kill('SIGTERM'));
      const [code] = await once(child, 'close');
      shell.exitCode = exitCodeOf(code);
    });
}

function exitCodeOf(code: unknown): ExitCode {
  const known = Object.values(EXIT).find((one) => one === code);
  return known ?? EXIT.failed;
}
