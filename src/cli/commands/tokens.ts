import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings';
import { hashApiToken, newApiToken } from '../../api-token.ts';
import {
  insertApiToken,
  listApiTokens,
  revokeApiToken,
  type StoredToken,
} from '../../db/api-tokens.ts';
import { assertNever } from '../../domain/assert-never.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { bold, table } from '../output.ts';
import { defaultOperator, withSession, type Shell } from '../shell.ts';

const EXPLANATION = `
viewer    reads everything
operator  starts, pauses, resumes and stops runs, imports customers, orders reruns, pauses the schedule,
          revokes keys of the vault
approver  also decides what Stripe cannot answer, and raises caps
admin     also sets the schedule, and makes keys of the vault

A person or system keeps its NAME when its token is replaced: the audit log and Idempotency-Keys go by it.`;

const DEFAULT_DAYS = 365;
const MAX_DAYS = 730;
const MAX_REASON = 500;

/** `tokens …`: makes, lists and revokes the tokens of the operator API. */
export function registerTokens(program: Command, shell: Shell): void {
  const tokens = program
    .command('tokens')
    .description('make, list and revoke the tokens of the operator API');
  registerCreate(tokens, shell);
  tokens
    .command('list')
    .description('every token, the newest first; secrets are not kept')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const json = options.json === true;
      await withSession(shell, { needs: {}, json }, async ({ platform, output }) => {
        const stored = await listApiTokens(platform.database.db);
        output.result({ tokens: stored.map(shown) });
        output.line(stored.length === 0 ? 'no tokens' : tokenTable(stored));
      });
    });
  registerRevoke(tokens, shell);
}

function registerCreate(tokens: Command, shell: Shell): void {
  tokens
    .command('create')
    .description('make a token; it is shown once')
    .addOption(
      new Option('--role <role>', 'what it may do')
        .choices(['viewer', 'operator', 'approver', 'admin'] as const)
        .makeOptionMandatory(),
    )
    .option('--name <name>', 'the person or system that gets it (default: your login name)', name)
    .option('--expires <days>', `its life in days, at most ${MAX_DAYS}`, days, DEFAULT_DAYS)
    .option('--operator <name>', 'who makes it, for the audit log', defaultOperator())
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText('after', EXPLANATION)
    .action(async (options) => {
      const json = options.json === true;
      const holder = options.name ?? ownName();
      await withSession(shell, { needs: {}, json }, async ({ platform, output }) => {
        const { tokenId, token } = newApiToken();
        const stored = await insertApiToken(platform.database.db, {
          tokenId,
          secretHash: hashApiToken(token),
          name: holder,
          role: options.role,
          lifeDays: options.expires,
          operator: options.operator,
        });
        const { id, name: storedName, role, expires_at } = shown(stored);
        output.result({ token, id, name: storedName, role, expires_at });
        output.line(`token of ${stored.name}, role ${role}, until ${expires_at.slice(0, 10)}:`);
        output.line(`${bold(token)}\nIt is shown this once.`);
      });
    });
}

function registerRevoke(tokens: Command, shell: Shell): void {
  tokens
    .command('revoke')
    .description('end a token for good, with its next request')
    .argument('<id>', 'its id, 16 hex digits: the part after cot_')
    .requiredOption('--reason <text>', 'why, for the audit log')
    .option('--operator <name>', 'who orders it, for the audit log', defaultOperator())
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (id, options) => {
      const tokenId = idOf(id);
      const { operator, reason } = options;
      if (reason.trim() === '' || reason.length > MAX_REASON)
        throw new CommandError(EXIT.usage, `--reason must say why, in 1 to ${MAX_REASON} letters`);
      const json = options.json === true;
      await withSession(shell, { needs: {}, json }, async ({ platform, output }) => {
        const order = { tokenId, operator, reason };
        const answer = await revokeApiToken(platform.database.db, order);
        switch (answer) {
          case 'unknown':
            throw new CommandError(EXIT.usage, `no token has the id ${tokenId}`);
          case 'revoked':
          case 'revokedBefore':
            output.result({ id: tokenId, revoked: true, before: answer === 'revokedBefore' });
            output.line(
              answer === 'revoked' ? `${tokenId} is revoked` : `${tokenId} was revoked before`,
            );
            return;
          default:
            assertNever(answer);
        }
      });
    });
}

/** The id of a token, also out of a whole one: whoever has to revoke a token in haste has it at hand. */
function idOf(text: string): string {
  const id = /^(?:cot_)?([0-9a-f]{16})(?:_[0-9a-f]{64})?$/.exec(text)?.[1];
  if (id !== undefined) return id;
  throw new CommandError(EXIT.usage, 'a token is named by its id: the 16 hex digits after cot_');
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

function name(text: string): string {
  if (NAME.test(text)) return text;
  throw new InvalidArgumentError('letters, digits, ".", "_" and "-", at most 64');
}

function ownName(): string {
  const login = defaultOperator();
  if (NAME.test(login)) return login;
  throw new CommandError(EXIT.usage, '--name: say whose token it is; your login name is no name');
}

function days(text: string): number {
  const value = Number(text);
  if (/^\d{1,4}$/.test(text) && value >= 1 && value <= MAX_DAYS) return value;
  throw new InvalidArgumentError(`a number of days, 1 to ${MAX_DAYS}`);
}

/** A token as JSON shows it. */
function shown(token: StoredToken) {
  return {
    id: token.tokenId,
    name: token.name,
    role: token.role,
    created_at: token.createdAt.toISOString(),
    created_by: token.createdBy,
    expires_at: token.expiresAt.toISOString(),
    revoked_at: token.revokedAt?.toISOString() ?? null,
    last_used_at: token.lastUsedAt?.toISOString() ?? null,
  };
}

function tokenTable(tokens: readonly StoredToken[]): string {
  const day = (at: Date | null): string => at?.toISOString().slice(0, 10) ?? '';
  return table(
    ['id', 'name', 'role', 'made by', 'expires', 'revoked', 'last used'],
    tokens.map((token) => [
      token.tokenId,
      token.name,
      token.role,
      token.createdBy,
      day(token.expiresAt),
      day(token.revokedAt),
      token.lastUsedAt?.toISOString().slice(0, 16) ?? '',
    ]),
  );
}
