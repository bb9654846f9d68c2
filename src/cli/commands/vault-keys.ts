import { Option, type Command } from '@commander-js/extra-typings';
import { z } from 'zod';
import { loadConfig } from '../../config.ts';
import { parseBillingPeriod } from '../../domain/billing-period.ts';
import { describeAmount } from '../../domain/money-text.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { bold, processOutput, table, type Output } from '../output.ts';
import { defaultOperator, type Shell } from '../shell.ts';
import { vaultAdminOf, type VaultAdmin } from '../vault-admin.ts';
import { keyIdOf, minorUnits } from './vault-reads.ts';

const keySchema = z.looseObject({
  id: z.string(),
  status: z.string(),
  cap_basis: z.string(),
  namespace: z.string().nullable(),
  billing_period: z.string().nullable(),
  caps: z.array(
    z.looseObject({
      currency: z.string(),
      cap: z.int(),
      expected: z.int().nullable(),
      reserved: z.int(),
      spent: z.int(),
      remaining: z.int(),
    }),
  ),
  allowed_endpoints: z.array(z.string()),
  expires_at: z.string(),
});
type Key = z.infer<typeof keySchema>;

const listSchema = z.object({ data: z.array(keySchema) });
const createdSchema = keySchema.extend({ key: z.string() });

const NAMING = '\nKEY is an id, 16 hex digits, or the billing period of a run (with --namespace).';

interface Admin {
  readonly admin: VaultAdmin;
  readonly output: Output;
}

/** `vault keys …`: an operator's view of the admin API, at VAULT_ADMIN_URL with VAULT_ADMIN_TOKEN. */
export function registerVaultKeys(vault: Command, shell: Shell): void {
  const keys = vault.command('keys').description('list, show, make, raise and revoke vault keys');
  const open = async (options: { readonly json?: true | undefined }): Promise<Admin> => ({
    admin: await vaultAdminOf(loadConfig(shell.env)),
    output: processOutput(options.json === true),
  });
  keys
    .command('list')
    .description('every key, the newest first')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const { admin, output } = await open(options);
      const { data } = await listKeys(admin);
      output.result({ keys: data });
      output.line(data.length === 0 ? 'no keys' : keyTable(data));
    });
  keys
    .command('show <key>')
    .description('one key with its caps and endpoints')
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText('after', NAMING)
    .action(async (name, options) => {
      const { admin, output } = await open(options);
      const id = await findKey(admin, name, options.namespace);
      showKey(output, await admin.call({ method: 'GET', path: `/vault/keys/${id}` }, keySchema));
    });
  registerCreate(keys, open);
  registerChanges(keys, open);
}

type Open = (options: { readonly json?: true | undefined }) => Promise<Admin>;

function registerCreate(keys: Command, open: Open): void {
  keys
    .command('create')
    .description('make a key; it is shown once')
    .requiredOption(
      '--endpoint <entry...>',
      'what it may call, such as "POST /v1/payment_intents"; several times',
    )
    .option('--max-amount <minor>', 'the cap in minor units, such as 50000', minorUnits)
    .option('--currency <code>', 'of --max-amount')
    .option('--daily-usd-cap <dollars>', 'instead of --max-amount: dollars per UTC day')
    .addOption(
      new Option('--cap-basis <basis>', 'what the cap counts').choices([
        'billing_period',
        'day',
        'total',
      ] as const),
    )
    .option('--billing-period <period>', 'the only period that its creates may name')
    .option('--expires-at <time>', 'its end, such as 2026-12-31T23:59:59Z (default: in 45 days)')
    .option('--operator <name>', 'who makes it, for the log', defaultOperator())
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const { admin, output } = await open(options);
      const body = {
        vendor: 'stripe',
        allowed_endpoints: options.endpoint,
        max_amount: options.maxAmount,
        currency: options.currency,
        daily_usd_cap: options.dailyUsdCap,
        cap_basis: options.capBasis,
        billing_period: options.billingPeriod,
        expires_at: options.expiresAt,
        operator: options.operator,
      };
      const made = await admin.call({ method: 'POST', path: '/vault/keys', body }, createdSchema);
      if (output.json) {
        output.result(made);
        return;
      }
      output.line(keyTable([made]));
      output.line(`${bold(made.key)}\nThis is the key, shown this once.`);
    });
}

function registerChanges(keys: Command, open: Open): void {
  keys
    .command('raise <key>')
    .description('raise a cap; it is never lowered')
    .requiredOption('--currency <code>', 'which of its caps')
    .requiredOption('--to <minor>', 'the new cap in minor units, such as 12000', minorUnits)
    .requiredOption('--reason <text>', 'why, for the log')
    .option('--operator <name>', 'who orders it, for the log', defaultOperator())
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText('after', NAMING)
    .action(async (name, options) => {
      const { admin, output } = await open(options);
      const { currency, to, reason, operator } = options;
      const id = await findKey(admin, name, options.namespace);
      const body = { currency, max_amount: to, reason, operator };
      const request = { method: 'PATCH', path: `/vault/keys/${id}`, body };
      showKey(output, await admin.call(request, keySchema));
    });
  keys
    .command('revoke <key>')
    .description('end a key for good, with its next request')
    .requiredOption('--reason <text>', 'why, for the log')
    .option('--operator <name>', 'who orders it, for the log', defaultOperator())
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText('after', NAMING)
    .action(async (name, options) => {
      const { admin, output } = await open(options);
      const { reason, operator } = options;
      const id = await findKey(admin, name, options.namespace);
      const request = { method: 'DELETE', path: `/vault/keys/${id}`, body: { reason, operator } };
      showKey(output, await admin.call(request, keySchema));
    });
}

function listKeys(admin: VaultAdmin): Promise<z.infer<typeof listSchema>> {
  return admin.call({ method: 'GET', path: '/vault/keys' }, listSchema);
}

/** The id that was meant: the run's key when a period is named. */
async function findKey(admin: VaultAdmin, name: string, namespace: string): Promise<string> {
  const period = parseBillingPeriod(name);
  if (!period.ok) return keyIdOf(name);
  const { data } = await listKeys(admin);
  const key = data.find((one) => one.billing_period === name && one.namespace === namespace);
  if (key !== undefined) return key.id;
  throw new CommandError(
    EXIT.usage,
    `the run ${namespace} ${name} has no key yet: its first charge opens one. Other keys are named by their id`,
  );
}

function showKey(output: Output, key: Key): void {
  output.result(key);
  output.line(keyTable([key]));
  output.line(`may call: ${key.allowed_endpoints.join(', ')}`);
}

function keyTable(keys: readonly Key[]): string {
  const money = (minor: number | null, currency: string): string =>
    minor === null ? '' : describeAmount(minor, currency);
  return table(
    ['key', 'for', 'status', 'cap', 'expected', 'reserved', 'spent', 'remaining', 'expires'],
    keys.flatMap((key) =>
      key.caps.map(({ currency, cap, expected, reserved, spent, remaining }) => [
        key.id,
        purposeOf(key),
        key.status,
        `${money(cap, currency)}${key.cap_basis === 'day' ? ' per day' : ''}`,
        money(expected, currency),
        money(reserved, currency),
        money(spent, currency),
        money(remaining, currency),
        key.expires_at.slice(0, 10),
      ]),
    ),
  );
}

function purposeOf({ namespace, billing_period: period }: Key): string {
  if (namespace !== null)
    return `run ${period ?? ''}${namespace === 'base' ? '' : `.${namespace}`}`;
  return period ?? '';
}
