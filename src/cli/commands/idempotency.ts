import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings';
import { writeAuditEntry } from '../../db/audit-log.ts';
import { queryable } from '../../db/queryable.ts';
import type { RecordId, StoredResponse } from '../../http/idempotency/index.ts';
import { RETENTION_MS } from '../../http/idempotency/options.ts';
import { finalState } from '../../http/idempotency/replay.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { table } from '../output.ts';
import { defaultOperator, withSession, type Session, type Shell } from '../shell.ts';

const EXPLANATION = `
A key waits here when the process that handled its request died and the route may not run again by itself: it
answers 409 until somebody has looked at what the request did.

--as never-ran   nothing came of it: the same key runs when it is sent again
--as done        it was carried out: the same key is answered with --status from now on`;

const LISTED = 1_000;

/** `idempotency …`: the keys of HTTP requests that broke off, and how they end. */
export function registerIdempotency(program: Command, shell: Shell): void {
  const idempotency = program
    .command('idempotency')
    .description('show and resolve Idempotency-Keys whose request broke off');
  idempotency
    .command('list')
    .description('keys that answer 409 until they are resolved, or run again when they are sent')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      await withSession(shell, { needs: {}, json: options.json === true }, async (session) => {
        const { platform, output } = session;
        const store = await storeOf(platform.database.db);
        const waiting = await store.interrupted(LISTED);
        output.result({ interrupted: waiting });
        output.line(
          waiting.length === 0
            ? 'no key is interrupted'
            : table(
                ['principal', 'endpoint', 'key', 'since'],
                waiting.map((one) => [
                  one.principal,
                  one.endpoint,
                  one.key,
                  one.since.toISOString(),
                ]),
              ),
        );
      });
    });
  registerResolve(idempotency, shell);
}

function registerResolve(idempotency: Command, shell: Shell): void {
  idempotency
    .command('resolve')
    .description('end the wait of a key whose request broke off')
    .argument('<key>', 'the Idempotency-Key')
    .requiredOption('--principal <name>', 'whose key it is')
    .option('--endpoint <endpoint>', 'the route, where keys are kept apart by route', '*')
    .addOption(
      new Option('--as <what>', 'what came of the request')
        .choices(['never-ran', 'done'] as const)
        .makeOptionMandatory(),
    )
    .option('--status <status>', 'what the key answers from now on, with --as done', status)
    .option('--body <json>', 'the body of that answer; none: a note that it was not kept')
    .requiredOption('--reason <text>', 'how it was found out, for the audit log')
    .option('--operator <name>', 'who decides, for the audit log', defaultOperator())
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText('after', EXPLANATION)
    .action(async (key, options) => {
      const { principal, endpoint, operator, reason } = options;
      const response = responseOf(options);
      if (reason.trim() === '')
        throw new CommandError(EXIT.usage, '--reason must say how it was found out');
      await withSession(shell, { needs: {}, json: options.json === true }, async (session) => {
        const order = { id: { principal, endpoint, key }, response, operator, reason };
        const answer = await resolve(session, order);
        session.output.result({ key, principal, endpoint, as: options.as, answer });
        if (answer === 'notInterrupted')
          throw new CommandError(
            EXIT.failed,
            `${key} of ${principal} is not interrupted: it is free, under way, or answered. See: chargeonce idempotency list`,
          );
        session.output.line(
          response === null
            ? `${key} runs when it is sent again`
            : `${key} is answered with ${response.status} from now on`,
        );
      });
    });
}

interface Order {
  readonly id: RecordId;
  readonly response: StoredResponse | null;
  readonly operator: string;
  readonly reason: string;
}

/** The decision and its line in the audit log, or neither. */
async function resolve({ platform }: Session, { id, response, operator, reason }: Order) {
  return platform.database.db.transaction().execute(async (trx) => {
    const store = await storeOf(trx);
    const answer = await store.resolve(id, response, RETENTION_MS);
    if (answer === 'resolved')
      await writeAuditEntry(trx, {
        actor: operator,
        action: 'idempotency.resolved',
        reason,
        details: { ...id, status: response?.status ?? null },
      });
    return answer;
  });
}

async function storeOf(db: Session['platform']['database']['db']) {
  const { PostgresIdempotencyStore } = await import('../../http/idempotency/postgres-store.ts');
  return new PostgresIdempotencyStore(queryable(db));
}

interface Resolution {
  readonly as: 'never-ran' | 'done';
  readonly status?: number | undefined;
  readonly body?: string | undefined;
}

function responseOf({ as, status, body }: Resolution): StoredResponse | null {
  if (as === 'never-ran') {
    if (status === undefined && body === undefined) return null;
    throw new CommandError(EXIT.usage, '--status and --body belong to --as done');
  }
  if (status === undefined)
    throw new CommandError(EXIT.usage, '--status: say what the key answers from now on');
  return {
    state: finalState(status),
    status,
    headers: body === undefined ? [] : [['content-type', 'application/json; charset=utf-8']],
    body: body === undefined ? null : Buffer.from(jsonOf(body)),
  };
}

function jsonOf(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    throw new CommandError(EXIT.usage, '--body must be JSON');
  }
}

function status(text: string): number {
  const value = Number(text);
  if (/^[2-5]\d\d$/.test(text)) return value;
  throw new InvalidArgumentError('a status of HTTP, 200 to 599');
}
