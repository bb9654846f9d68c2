import type { Command } from '@commander-js/extra-typings';
import { temporalPlace } from '../../client/temporal-place.ts';
import { assertNever } from '../../domain/assert-never.ts';
import { adoptEnvironment, type AdoptionAnswer } from '../../db/adopt-environment.ts';
import {
  differencesOf,
  readDatabasePlace,
  readEnvironment,
  type EnvironmentDifference,
  type PresentEnvironment,
} from '../../db/environment.ts';
import { accountOf } from '../account-check.ts';
import { confirmed } from '../confirm.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { green, red, table, type Output } from '../output.ts';
import { defaultOperator, withSession, type Session, type Shell } from '../shell.ts';

/** Everything but the key's match with the database: that is what these commands are about. */
const NEEDS = { temporal: true, stripe: true, anyAccount: true } as const;

export function registerEnvironment(program: Command, shell: Shell): void {
  const environment = program
    .command('environment')
    .description('what this database is bound to: account, mode, server and Temporal');
  environment
    .command('show')
    .description('compare what the database is bound to with what is here; exit 1 when they differ')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      await withSession(shell, { needs: NEEDS, json: options.json === true }, async (session) => {
        const here = await presentEnvironment(session);
        if (!(await show(session, here))) shell.exitCode = EXIT.failed;
      });
    });
  environment
    .command('adopt')
    .description(
      'bind the database to where it stands now: after a restore or a move, never for a copy',
    )
    .requiredOption('--reason <text>', 'why, for the audit log')
    .option('--operator <name>', 'who orders it, for the audit log', defaultOperator())
    .option('--account-changed', 'another Stripe account or mode is meant, not a slip')
    .option('--yes', 'do not ask')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      await withSession(shell, { needs: NEEDS, json: options.json === true }, async (session) => {
        await adopt(shell, session, {
          operator: options.operator,
          reason: options.reason,
          accountChanged: options.accountChanged === true,
          yes: options.yes === true,
        });
      });
    });
}

async function presentEnvironment(session: Session): Promise<PresentEnvironment> {
  const { platform, config } = session;
  const { biller, temporal, database } = platform;
  if (biller === null || temporal === null) throw new Error('Stripe and Temporal were asked for');
  const { workflowService } = (await platform.client()).temporal;
  return {
    account: await accountOf(biller),
    liveMode: config.mode === 'live',
    database: await readDatabasePlace(database.db),
    temporal: await temporalPlace(workflowService, temporal.namespace),
  };
}

/** Prints both sides; true when they agree, or when nothing is bound yet. */
async function show({ platform, output }: Session, here: PresentEnvironment): Promise<boolean> {
  const bound = await readEnvironment(platform.database.db);
  const differences = bound === null ? [] : differencesOf(bound, here);
  output.result({ bound, here, differences, matches: differences.length === 0 });
  const mode = (live: boolean): string => (live ? 'live' : 'test');
  const rows = [
    ['stripe account', bound?.account, here.account],
    ['stripe mode', bound === null ? null : mode(bound.liveMode), mode(here.liveMode)],
    ['database server', bound?.database?.systemIdentifier, here.database?.systemIdentifier],
    ['database oid', bound?.database?.oid, here.database?.oid],
    ['database name', bound?.database?.name, here.database?.name],
    ['temporal namespace', bound?.temporal?.namespace, here.temporal?.namespace],
    ['temporal namespace id', bound?.temporal?.namespaceId, here.temporal?.namespaceId],
  ].map((row) => row.map((cell) => String(cell ?? '–')));
  output.line(table(['', 'bound to', 'here'], rows));
  if (bound === null) output.line('nothing is bound yet: the first worker does it');
  else if (differences.length === 0) output.line(green('this is what the database is bound to'));
  else output.line(red(`another place: workers refuse to start (${namesOf(differences)})`));
  return differences.length === 0;
}

async function adopt(
  shell: Shell,
  session: Session,
  order: { operator: string; reason: string; accountChanged: boolean; yes: boolean },
): Promise<void> {
  const { platform, output } = session;
  const here = await presentEnvironment(session);
  const bound = await readEnvironment(platform.database.db);
  const differences = bound === null ? [] : differencesOf(bound, here);
  if (differences.length > 0) {
    say(output, differences);
    if (!order.yes && !(await confirmed(output, 'Adopt this place?'))) {
      output.line('nothing was changed');
      output.result({ adopted: false, differences });
      shell.exitCode = EXIT.usage;
      return;
    }
  }
  const answer = await adoptEnvironment(platform.database.db, here, order);
  report(output, answer);
}

function say(output: Output, differences: readonly EnvironmentDifference[]): void {
  output.line(
    table(
      ['', 'bound to', 'here'],
      differences.map(({ what, bound, here }) => [what, bound, here]),
    ),
  );
  output.note(
    'Adopting lets workers bill from this database. If another copy of it bills as well, customers are charged twice:\n' +
      'stop that one for good first. After a restore, write down what the backup has forgotten before (docs/operations.md).',
  );
}

function report(output: Output, answer: AdoptionAnswer): void {
  switch (answer.kind) {
    case 'unbound':
      output.line('nothing is bound yet: the first worker does it. Nothing was changed');
      output.result({ adopted: false, differences: [] });
      return;
    case 'same':
      output.line('this is what the database is bound to already. Nothing was changed');
      output.result({ adopted: false, differences: [] });
      return;
    case 'adopted':
      output.line(green(`adopted: ${namesOf(answer.differences)}. Workers may start`));
      output.result({ adopted: true, differences: answer.differences });
      return;
    case 'refused':
      throw new CommandError(EXIT.usage, answer.why);
    default:
      return assertNever(answer);
  }
}

function namesOf(differences: readonly EnvironmentDifference[]): string {
  return differences.map(({ what }) => what).join(', ');
}
