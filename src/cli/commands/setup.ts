import { createInterface } from 'node:readline/promises';
import type { Command } from '@commander-js/extra-typings';
import { RunClient } from '../../client.ts';
import {
  describeSchedule,
  ensureSchedule,
  type EnsuredSchedule,
  type WantedSchedule,
} from '../../client/schedule.ts';
import { loadConfig } from '../../config.ts';
import { openDatabase } from '../../db/database.ts';
import { logScheduleOrder } from '../../db/schedule-log.ts';
import { migrate, pendingMigrations } from '../../db/migrate.ts';
import { DEFAULT_NAMESPACE } from '../../domain/namespace.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { processOutput, table, type Output } from '../output.ts';
import { temporalAccess } from '../platform.ts';
import { defaultOperator, type Shell } from '../shell.ts';
import { addSearchAttributes, missingSearchAttributes } from '../temporal-setup.ts';

export function registerSetup(program: Command, shell: Shell): void {
  program
    .command('setup')
    .description('prepare a real PostgreSQL and Temporal: migrations, search attributes, schedule')
    .option('--dry-run', 'only say what would be done')
    .option('--yes', 'do it without asking')
    .option('--no-schedule', 'create no schedule; one that exists is left alone in any case')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const output = processOutput(options.json === true);
      const config = loadConfig(shell.env);
      const databaseUrl = config.DATABASE_URL?.reveal();
      const temporal = temporalAccess(shell.env);
      if (databaseUrl === undefined || temporal === null) {
        throw new CommandError(
          EXIT.usage,
          'setup prepares real services: set DATABASE_URL, and TEMPORAL_ADDRESS or a Temporal profile. ' +
            'The embedded parts set themselves up',
        );
      }
      const client = await connectOrExplain(() => RunClient.connect(temporal), 'Temporal');
      try {
        const schedule: WantedSchedule | null = options.schedule
          ? {
              namespace: DEFAULT_NAMESPACE,
              dayOfMonth: 1,
              hour: 0,
              minute: 0,
              zone: config.BILLING_ZONE,
              granularity: 'month',
              bills: 'current',
            }
          : null;
        await prepare({
          shell,
          output,
          databaseUrl,
          client,
          schedule,
          dryRun: options.dryRun === true,
          yes: options.yes === true,
        });
      } finally {
        await client.close();
      }
    });
}

async function prepare(order: {
  shell: Shell;
  output: Output;
  databaseUrl: string;
  client: RunClient;
  schedule: WantedSchedule | null;
  dryRun: boolean;
  yes: boolean;
}): Promise<void> {
  const { output, databaseUrl, client, schedule } = order;
  const migrations = await connectOrExplain(() => pendingMigrations(databaseUrl), 'PostgreSQL');
  const attributes = await missingSearchAttributes(client);
  // One that exists is somebody's decision; "schedule ensure" is the way to change it.
  const missing =
    schedule !== null && (await describeSchedule(client.temporal, schedule.namespace)) === null;
  const planned = missing
    ? await ensureSchedule(client.temporal, schedule, { dryRun: true })
    : null;
  const todo = [
    ...migrations.map((name) => ['migration', name]),
    ...attributes.map((name) => ['search attribute', name]),
    ...(planned?.changes ?? []).map((change) => [
      'schedule',
      `${change.setting}: ${change.from ?? '–'} → ${change.to}`,
    ]),
  ];
  const plan = { migrations, searchAttributes: attributes, schedule: planned };
  if (todo.length === 0) {
    output.line('everything is set up: nothing to do');
    output.result({ ...plan, applied: false });
    return;
  }
  output.line(table(['what', 'change'], todo));
  if (order.dryRun || !(order.yes || (await confirmed(output)))) {
    output.line('nothing was changed');
    output.result({ ...plan, applied: false });
    if (!order.dryRun) order.shell.exitCode = EXIT.usage;
    return;
  }
  await migrate(databaseUrl);
  await addSearchAttributes(client, attributes);
  if (missing && planned !== null) {
    await logNewSchedule(databaseUrl, schedule, planned);
    await ensureSchedule(client.temporal, schedule);
  }
  output.line(`done: ${todo.length} changes`);
  output.result({ ...plan, applied: true });
}

async function logNewSchedule(
  url: string,
  { namespace }: WantedSchedule,
  change: EnsuredSchedule,
): Promise<void> {
  const database = openDatabase({
    url,
    applicationName: 'chargeonce setup',
    poolSize: 1,
    onError: () => {},
  });
  const by = { operator: defaultOperator(), reason: 'chargeonce setup' };
  try {
    await logScheduleOrder(database.db, { action: 'set', namespace, ...by, change });
  } finally {
    await database.close();
  }
}

/** Asks on a terminal; without one nothing is done unless --yes says so. */
async function confirmed(output: Output): Promise<boolean> {
  if (!output.interactive || !process.stdin.isTTY) {
    output.note('not a terminal: add --yes to do this');
    return false;
  }
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await prompt.question('Do this? [y/N] ');
  prompt.close();
  return /^y(es)?$/i.test(answer.trim());
}

async function connectOrExplain<T>(work: () => Promise<T>, what: string): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const said = error instanceof Error ? error.message || error.name : String(error);
    throw new CommandError(EXIT.unavailable, `${what} cannot be reached: ${said}`, error);
  }
}
