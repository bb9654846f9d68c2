import { InvalidArgumentError, type Command } from '@commander-js/extra-typings';
import { z } from 'zod';
import { loadConfig } from '../../config.ts';
import { readDrift, type DriftRow } from '../../db/vault-drift.ts';
import { readVaultLog, type LogQuery, type LogRow } from '../../db/vault-log.ts';
import { parseBillingPeriod } from '../../domain/billing-period.ts';
import { describeAmount } from '../../domain/money-text.ts';
import { parseKey } from '../../vault-key.ts';
import { answerLog } from '../../vault-log-answer.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { bold, green, processOutput, red, table } from '../output.ts';
import { withSession, type Shell } from '../shell.ts';
import { vaultAdminOf } from '../vault-admin.ts';

const MAX_ROWS = 1_000;

const sweepSchema = z.object({
  looked: z.int(),
  spent: z.int(),
  released: z.int(),
  held: z.int(),
  failed: z.int(),
  closedKeys: z.array(z.string()),
});

interface LogOptions {
  readonly key?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly customer?: string | undefined;
  readonly period?: string | undefined;
}

/** `vault log`, `vault sweep` and `vault drift`. */
export function registerVaultReads(vault: Command, shell: Shell): void {
  vault
    .command('log')
    .description('did it go out twice, or did the retry never reach the network? With the rows')
    .option('--key <id>', 'a vault key: its id, 16 hex digits')
    .option('--idempotency-key <key>', 'as the client sent it')
    .option('--customer <id>', 'our customer id')
    .option('--period <period>', 'a billing period')
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText(
      'after',
      `\nAt least one of the first four. The newest ${MAX_ROWS} requests that fit all of them.`,
    )
    .action(async (options) => {
      const query = readQuery(options);
      await withSession(shell, { needs: {}, json: options.json === true }, async (session) => {
        const { output, platform } = session;
        const rows = await readVaultLog(platform.database.db, query);
        const answer = answerLog(rows, query);
        output.result({ answer, truncated: rows.length === MAX_ROWS, rows });
        output.line(bold(answer));
        if (rows.length === MAX_ROWS)
          output.line(`Of the newest ${MAX_ROWS} requests only: narrow the question down.`);
        if (rows.length > 0) output.line(logTable(rows));
      });
    });
  vault
    .command('sweep')
    .description('have the vault ask Stripe now about every reservation whose outcome is open')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const output = processOutput(options.json === true);
      const admin = await vaultAdminOf(loadConfig(shell.env));
      const report = await admin.call({ method: 'POST', path: '/vault/sweep' }, sweepSchema);
      const { looked, spent, released, held, failed, closedKeys } = report;
      output.result(report);
      output.line(
        `looked at ${looked}: ${spent} spent, ${released} given back, ${held} still held (${failed} without an answer); ` +
          `${closedKeys.length} keys of runs that are over closed`,
      );
      // Open means: Stripe is still at work, or time must pass before the next look says more.
      if (held > 0) shell.exitCode = EXIT.unfinished;
    });
  vault
    .command('drift')
    .description('add up count, ledger, reservations and audit; exit 1 when they differ')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      await withSession(shell, { needs: {}, json: options.json === true }, async (session) => {
        const { output, platform } = session;
        const drift = await readDrift(platform.database.db);
        const { windows, differing } = drift;
        output.result({ drifts: differing.length > 0, ...drift });
        if (differing.length === 0) {
          output.line(green(`The sums of ${windows.length} caps agree.`));
          return;
        }
        output.line(red(`The sums of ${differing.length} of ${windows.length} caps do not agree:`));
        output.line(driftTable(differing));
        shell.exitCode = EXIT.failed;
      });
    });
}

/** What the log is asked, checked. */
function readQuery(options: LogOptions): LogQuery {
  const { key, idempotencyKey, customer, period } = options;
  if ([key, idempotencyKey, customer, period].every((one) => one === undefined))
    throw new CommandError(
      EXIT.usage,
      'say what to look for: --key, --idempotency-key, --customer or --period',
    );
  if (period !== undefined) {
    const parsed = parseBillingPeriod(period);
    if (!parsed.ok) throw new CommandError(EXIT.usage, parsed.problem);
  }
  return {
    limit: MAX_ROWS,
    ...(key === undefined ? {} : { keyId: keyIdOf(key) }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(customer === undefined ? {} : { customerId: customer }),
    ...(period === undefined ? {} : { period }),
  };
}

/** The id of a key, given as it is, with its mode in front, or as the whole key. */
export function keyIdOf(text: string): string {
  const keyId = parseKey(text)?.keyId ?? /^(?:vk_(?:test|live)_)?([0-9a-f]{16})$/.exec(text)?.[1];
  if (keyId !== undefined) return keyId;
  throw new CommandError(EXIT.usage, 'a vault key is named by its id, 16 hex digits');
}

/** A whole number above 0, for options. */
export function minorUnits(text: string): number {
  const value = Number(text);
  if (/^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(value)) return value;
  throw new InvalidArgumentError('a whole number of minor units, such as 12000 for 120.00 USD');
}

function logTable(rows: readonly LogRow[]): string {
  return table(
    ['at', 'request', 'idempotency key', 'amount', 'went out', 'answer', 'reservation'],
    rows.map((row) => [
      row.at.toISOString(),
      `${row.method} ${row.path}`,
      row.idempotencyKey ?? '',
      row.amountMinor === null || row.currency === null
        ? ''
        : describeAmount(row.amountMinor, row.currency),
      row.decision === 'forward' ? 'yes' : `no: ${row.decision}`,
      answerText(row),
      row.reservation === null ? '' : `${row.reservation.state} (${row.reservation.reason})`,
    ]),
  );
}

function answerText({ decision, answer }: LogRow): string {
  if (decision !== 'forward') return '';
  if (answer === null) return 'none written down';
  const { status, error, stripeRequestId, replayed, durationMs } = answer;
  const text = status === null ? `lost: ${error ?? ''}` : String(status);
  const parts = [text, replayed ? 'saved reply' : '', stripeRequestId ?? '', `${durationMs} ms`];
  return parts.filter((part) => part !== '').join(' · ');
}

function driftTable(rows: readonly DriftRow[]): string {
  return table(
    ['key', 'currency', 'day', 'count', 'ledger', 'reservations', 'audit', 'spent', 'settled'],
    rows.map((row) => [
      row.keyId,
      row.currency,
      row.window,
      row.usedMinor,
      row.ledgerMinor,
      row.reservationsMinor,
      row.auditedMinor,
      row.spentMinor,
      row.settledMinor,
    ]),
  );
}
