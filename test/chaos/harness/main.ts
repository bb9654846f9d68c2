// npm run chaos: a whole run on real parts while everything fails, and three witnesses in the end.
import { readOptions, type ChaosOptions } from './options.ts';
import { runChaos } from './chaos.ts';
import { toJson, toText } from './report.ts';
import { Home } from './world.ts';

const EXIT = { pass: 0, fail: 1, unknown: 4, interrupted: 130 } as const;

// What still waits for an answer shall not keep it.
process.exit(await main(readOptions(process.argv)));

async function main(options: ChaosOptions): Promise<number> {
  const note = (message: string): void => void process.stderr.write(`· ${message}\n`);
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      // Asked twice: leave at once, and take the processes along.
      if (interrupted.signal.aborted) process.exit(EXIT.interrupted);
      note('interrupted: cleaning up');
      interrupted.abort(new Error('interrupted'));
    });
  }
  note(
    `seed ${options.seed}: --seed ${options.seed} --customers ${options.customers} --minutes ${options.faultMs / 60_000}`,
  );
  const home = await Home.make();
  try {
    const result = await runChaos(options, { home, note, signal: interrupted.signal });
    process.stdout.write(
      options.json ? `${JSON.stringify(toJson(result))}\n` : `${toText(result)}\n`,
    );
    if (options.json) process.stderr.write(`${toText(result)}\n`);
    return EXIT[result.verdict];
  } catch (error) {
    if (interrupted.signal.aborted) return EXIT.interrupted;
    const said = error instanceof Error ? (error.stack ?? error.message) : String(error);
    note(`the harness could not finish: ${said}`);
    if (options.json) process.stdout.write(`${JSON.stringify(unfinished(options, said))}\n`);
    return EXIT.unknown;
  } finally {
    await home.close({ keep: options.keep });
    if (options.keep) note(`kept: ${home.folder}`);
  }
}

/** Nothing was counted, so nothing can be said. */
function unfinished({ seed, customers }: ChaosOptions, said: string): Record<string, unknown> {
  const nothing = { charged: null, doubleCharged: null, lost: null, faultsFired: 0 };
  return { verdict: 'unknown', customers, ...nothing, seed, reasons: [said] };
}
