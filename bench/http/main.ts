// npm run bench:http: what an Idempotency-Key costs, beside the same route without one and beside other layers.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { Command, InvalidArgumentError } from '@commander-js/extra-typings';
import { loadConfig } from '../../src/config.ts';
import { openPlatform } from '../../src/cli/platform.ts';
import { baseEnv } from '../stack.ts';
import { CONTESTANTS, type Contestant } from './contestants.ts';
import { requireDurable } from './counts.ts';
import { measure, type Measured, type Ring } from './measure.ts';
import { bestRound, ratioToBare, report, type Result } from './report.ts';
import { sendTogether, type Together } from './together.ts';

/** Of docs/testing.md, for a machine of two cores with everything on it. */
const BAR_KEYED_PER_SECOND = 1_000;
/** So many commits share a flush of the log; more than the requests at once have no use. */
const POOL = 32;

const options = new Command('bench:http')
  .description('measure what an Idempotency-Key costs')
  .option('--seconds <n>', 'measured time of each contestant in each round', positive, 5)
  .option('--warm-up <n>', 'seconds before it', positive, 2)
  .option('--rounds <n>', 'every contestant once in each', positive, 3)
  .option('--connections <n>', 'requests at once', positive, 64)
  .option('--pool <n>', 'connections of a server to PostgreSQL', positive, POOL)
  .option('--only <text>', 'contestants with this in their name')
  .option('--profile <folder>', 'write a CPU profile of every server there')
  .option('--check', 'exit with 1 when the bar is missed')
  .option('--json', 'print the result as one JSON object on the last line')
  .parse()
  .opts();
const note = (message: string): void => void process.stderr.write(`· ${message}\n`);
const chosen = CONTESTANTS.filter(({ name }) => name.includes(options.only ?? ''));

process.exitCode = await main();

async function main(): Promise<number> {
  const home = mkdtempSync(path.join(tmpdir(), 'chargeonce-bench-'));
  // As root, PostgreSQL runs as another user, who has to pass through.
  chmodSync(home, 0o711);
  try {
    const results = await fight(home);
    const keyed = results.find(({ layer, keys }) => layer === 'chargeonce' && keys === 'new');
    const missed = keyed !== undefined && bestRound(keyed).requestsPerSecond < BAR_KEYED_PER_SECOND;
    const withRatios = results.map((result) => ({
      ...result,
      ratio: ratioToBare(result, results),
    }));
    process.stderr.write(`${report(results)}\n${missed ? 'bar missed' : 'bar held'}\n`);
    if (options.json === true)
      process.stdout.write(`${JSON.stringify({ results: withRatios, missed })}\n`);
    return options.check === true && missed ? 1 : 0;
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

async function fight(home: string): Promise<readonly Result[]> {
  const env = { ...baseEnv(), CHARGEONCE_HOME: home, LOG_LEVEL: 'error' };
  const platform = await openPlatform({
    config: loadConfig(env),
    env,
    embeddedOnly: true,
    needs: {},
    note,
  });
  try {
    await requireDurable(platform);
    const { pool, connections, seconds, warmUp: warmUpS } = options;
    const nodeFlags =
      options.profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', options.profile];
    const ring: Ring = {
      platform,
      server: { databaseUrl: platform.databaseUrl.reveal(), pool, nodeFlags },
      load: { connections, seconds, warmUpS },
    };
    const rounds = new Map<Contestant, Measured[]>(chosen.map((one) => [one, []]));
    for (let round = 1; round <= options.rounds; round += 1) {
      note(`round ${round} of ${options.rounds}; load of the machine ${loadavg()[0] ?? 0}`);
      for (const [contestant, measured] of rounds) measured.push(await measure(contestant, ring));
    }
    note('one key, sent 200 times at once to two processes');
    const together = new Map<string, Together>();
    const results: Result[] = [];
    for (const [contestant, measured] of rounds) {
      const { layer, framework } = contestant;
      const met =
        together.get(`${framework} ${layer}`) ?? (await sendTogether(contestant, ring.server));
      together.set(`${framework} ${layer}`, met);
      results.push({ ...contestant, rounds: measured, together: met });
    }
    return results;
  } finally {
    await platform.close();
  }
}

function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('a number above 0');
  return value;
}
