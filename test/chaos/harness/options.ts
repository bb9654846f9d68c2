import { Command, InvalidArgumentError, Option } from '@commander-js/extra-typings';

type Profile = 'quick' | 'long';

/** What one chaos run is made of. Intervals are milliseconds, [shortest, longest]. */
export interface ChaosOptions {
  readonly seed: number;
  readonly profile: Profile;
  readonly customers: number;
  /** the fault phase ends after this, whatever is left to charge */
  readonly faultMs: number;
  /** everything has to be settled this long after the last fault */
  readonly healMs: number;
  readonly workerKillMs: readonly [number, number];
  readonly postgresCrashMs: readonly [number, number];
  readonly temporalKillMs: readonly [number, number];
  /** also the last worker that is up is killed; else one is left to work */
  readonly killLast: boolean;
  /** share of commits whose answer is lost */
  readonly commitLoss: number;
  readonly json: boolean;
  readonly keep: boolean;
}

interface ProfileDefaults {
  readonly customers: number;
  readonly minutes: number;
  readonly healMs: number;
  readonly workerKillMs: readonly [number, number];
  readonly postgresCrashMs: readonly [number, number];
  readonly temporalKillMs: readonly [number, number];
}

const PROFILES: Readonly<Record<Profile, ProfileDefaults>> = {
  // CI has three minutes for it, start and audit included.
  quick: {
    customers: 240,
    minutes: 0.75,
    healMs: 90_000,
    workerKillMs: [4_000, 9_000],
    postgresCrashMs: [6_000, 11_000],
    temporalKillMs: [20_000, 30_000],
  },
  long: {
    customers: 5_000,
    minutes: 8,
    healMs: 720_000,
    workerKillMs: [3_000, 7_000],
    postgresCrashMs: [5_000, 10_000],
    temporalKillMs: [45_000, 90_000],
  },
};

const MAX_CUSTOMERS = 100_000;
const MAX_MINUTES = 24 * 60;

/** The command line as options; exits with the usage when it is wrong or asks for help. */
export function readOptions(argv: readonly string[]): ChaosOptions {
  const given = new Command('chaos')
    .description(
      'Bills customers on real parts while workers, PostgreSQL, Temporal and the provider fail at random,\n' +
        'then heals and counts: nobody charged twice, nobody lost. Exit code 0 only for the verdict "pass".',
    )
    .option(
      '--seed <n>',
      'repeats the same faults (default: a random one, printed)',
      whole(2 ** 31),
    )
    .option(
      '--customers <n>',
      'how many (default: 240; 5,000 with --profile long)',
      whole(MAX_CUSTOMERS),
    )
    .option(
      '--minutes <n>',
      'length of the fault phase (default: 0.75; 8 with --profile long)',
      minutes,
    )
    .addOption(
      new Option('--profile <name>', 'defaults for all the rest')
        .choices(['quick', 'long'] as const)
        .default('quick' as const),
    )
    .option('--json', 'the last line of stdout is one JSON object')
    .option('--keep', 'keep the folder with databases and logs, and print where it is')
    .parse([...argv])
    .opts();
  const defaults = PROFILES[given.profile];
  return {
    seed: given.seed ?? Math.floor(Math.random() * 1_000_000) + 1,
    profile: given.profile,
    customers: given.customers ?? defaults.customers,
    faultMs: (given.minutes ?? defaults.minutes) * 60_000,
    healMs: defaults.healMs,
    workerKillMs: defaults.workerKillMs,
    postgresCrashMs: defaults.postgresCrashMs,
    temporalKillMs: defaults.temporalKillMs,
    killLast: given.profile === 'long',
    commitLoss: 0.08,
    json: given.json === true,
    keep: given.keep === true,
  };
}

function whole(max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isInteger(value) && value > 0 && value <= max) return value;
    throw new InvalidArgumentError(`a whole number from 1 to ${max}`);
  };
}

function minutes(text: string): number {
  const value = Number(text);
  if (value > 0 && value <= MAX_MINUTES) return value;
  throw new InvalidArgumentError(`a number of minutes, up to ${MAX_MINUTES}`);
}
