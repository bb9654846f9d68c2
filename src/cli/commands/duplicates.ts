import { Option, type Command } from '@commander-js/extra-typings';
import type { Granularity } from '../../domain/billing-period.ts';
import { describeAmount } from '../../domain/money-text.ts';
import { LookupFailed } from '../../payments/gateway.ts';
import type { RefundDeps } from '../../refunds/deps.ts';
import { ChargeCollection, type Duplicate, type Found } from '../../refunds/find-duplicates.ts';
import { findWithSlots, planRefunds } from '../../refunds/plan-refunds.ts';
import { duplicatesRange, type DuplicatesRange } from '../duplicates-range.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { green, red, table, yellow } from '../output.ts';
import { withRefunds } from '../refund-deps.ts';
import { describeSums, executeAndReport, sumsOf } from '../refund-order.ts';
import { defaultOperator, withSession, type Session, type Shell } from '../shell.ts';

/** Rows on the screen; --json and the plan have all of them. */
const SHOWN = 50;
/** Where nobody watches, a long list says now and then that it goes on. */
const NOTE_EVERY = 10_000;
const EVERY = ['year', 'month', 'week', 'day'] as const;

interface FindOptions {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly every: Granularity;
  readonly periodMetadataKey?: string | undefined;
  readonly customerMetadataKey?: string | undefined;
  readonly operator: string;
  readonly plan?: true | undefined;
}

export function registerDuplicates(program: Command, shell: Shell): void {
  program
    .command('duplicates')
    .description(
      'look through the charges at the provider for customers who paid twice, plan refunds, and execute a plan on order',
    )
    .option('--from <date>', 'first day or period (default: the period before the present one)')
    .option('--to <date>', 'last day or period, included (default: the present period)')
    .addOption(
      new Option('--every <period>', 'how long a billing period is')
        .choices(EVERY)
        .default('month' as const),
    )
    .option('--period-metadata-key <name>', 'where a job before us wrote the period')
    .option('--customer-metadata-key <name>', 'where a job before us wrote the customer')
    .option('--plan', 'store a refund plan; sends nothing')
    .option('--execute <plan>', 'give back what this plan names')
    .option('--include-likely', 'with --execute: not only what is certain')
    .option('--reason <text>', 'with --execute: why, for the audit log')
    .option('--operator <name>', 'who plans or orders, for the audit log', defaultOperator())
    .option('--yes', 'with --execute: do not ask')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const planId = parsePlanId(options.execute);
      const { reason, operator } = options;
      if (planId !== null && (reason === undefined || reason.trim() === '')) {
        throw new CommandError(EXIT.usage, '--execute moves money: say why with --reason TEXT');
      }
      if (planId !== null && options.plan === true) {
        throw new CommandError(EXIT.usage, '--plan and --execute are two steps: take one');
      }
      const json = options.json === true;
      const purpose = planId === null && options.plan !== true ? 'reads' : 'writes';
      await withSession(shell, { needs: { stripe: true }, json }, (session) =>
        withRefunds(session, purpose, async (deps) => {
          if (planId === null) return findAndReport(shell, session, { ...options, deps });
          const includeLikely = options.includeLikely === true;
          const order = { planId, operator, reason: reason ?? '', includeLikely };
          return executeAndReport(shell, session, { ...order, deps, yes: options.yes === true });
        }),
      );
    });
}

function parsePlanId(text: string | undefined): number | null {
  if (text === undefined) return null;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new CommandError(
    EXIT.usage,
    `--execute takes the number of a plan, not ${JSON.stringify(text)}`,
  );
}

async function findAndReport(
  shell: Shell,
  session: Session,
  options: FindOptions & { readonly deps: RefundDeps },
): Promise<void> {
  const { output, config } = session;
  const { deps, every: granularity } = options;
  const zone = config.BILLING_ZONE;
  const { from, to } = options;
  const range = duplicatesRange({ from, to, granularity, zone, nowMs: Date.now() });
  const collection = new ChargeCollection({
    zone,
    granularity,
    periodKey: options.periodMetadataKey,
    customerKey: options.customerMetadataKey,
  });
  await readCharges(session, deps, { range, collection, interrupted: shell.interrupted });
  const found = await findWithSlots(deps, collection.all());
  const { duplicates } = found;
  const plan = options.plan === true ? await planRefunds(deps, duplicates, options.operator) : null;
  const extrasOf = (kind: Duplicate['kind']) =>
    duplicates
      .filter((one) => one.kind === kind)
      .flatMap(({ extras }) => extras)
      .map(({ currency, netMinor }) => ({ currency, amountMinor: netMinor }));
  const certain = extrasOf('certain');
  const likely = extrasOf('likely');
  output.result({
    from: new Date(range.fromMs).toISOString(),
    to: new Date(range.toMs).toISOString(),
    charges: found.charges,
    certain: certain.length,
    likely: likely.length,
    certainMinorByCurrency: sumsOf(certain),
    likelyMinorByCurrency: sumsOf(likely),
    settled: found.settled,
    plan,
    duplicates,
  });
  show(session, found, { certain, likely, plan });
  if (duplicates.length > 0) shell.exitCode = EXIT.failed;
}

async function readCharges(
  { output }: Session,
  deps: RefundDeps,
  into: {
    readonly range: DuplicatesRange;
    readonly collection: ChargeCollection;
    readonly interrupted: AbortSignal;
  },
): Promise<void> {
  const { range, collection, interrupted } = into;
  let read = 0;
  try {
    const bounds = {
      createdGte: Math.floor(range.fromMs / 1000),
      createdLt: Math.ceil(range.toMs / 1000),
    };
    for await (const page of deps.refunds.listCharges(bounds)) {
      if (interrupted.aborted) {
        throw new CommandError(
          EXIT.interrupted,
          `interrupted after ${read} charges: nothing was decided`,
        );
      }
      for (const charge of page) collection.add(charge);
      const noted = Math.floor(read / NOTE_EVERY);
      read += page.length;
      output.redraw(`reading charges: ${read}`);
      if (!output.interactive && Math.floor(read / NOTE_EVERY) > noted) {
        output.note(`· ${read} charges read`);
      }
    }
  } catch (error) {
    if (!(error instanceof LookupFailed)) throw error;
    throw new CommandError(
      EXIT.unavailable,
      `the charges could not be read to the end (${read} read): ${error.message}. Nothing was decided; try again`,
      error,
    );
  } finally {
    output.redraw('');
  }
}

type Sums = readonly { readonly currency: string; readonly amountMinor: number }[];

function show(
  { output }: Session,
  { duplicates, charges, settled }: Found,
  sums: { readonly certain: Sums; readonly likely: Sums; readonly plan: number | null },
): void {
  if (duplicates.length > 0) {
    const rows = duplicates.flatMap((one) =>
      one.extras.map((extra) => [
        one.kind,
        one.customerId ?? one.stripeCustomerId ?? '',
        one.period,
        one.kept.chargeId,
        extra.chargeId,
        extra.madeBy,
        describeAmount(extra.netMinor, extra.currency),
      ]),
    );
    const head = ['kind', 'customer', 'period', 'kept', 'extra', 'made by', 'to give back'];
    output.line(table(head, rows.slice(0, SHOWN)));
    if (rows.length > SHOWN) output.line(`… and ${rows.length - SHOWN} more (--json shows all)`);
    for (const why of new Set(duplicates.slice(0, 3).map((one) => one.why)))
      output.line(`· ${why}`);
  }
  const { certain, likely, plan } = sums;
  const text = `${certain.length} certain (${describeSums(sumsOf(certain))}), ${likely.length} likely (${describeSums(sumsOf(likely))})`;
  const paint = certain.length > 0 ? red : likely.length > 0 ? yellow : green;
  output.line(paint(`charged twice: ${text} among ${charges} successful charges`));
  if (settled.refunded > 0) {
    output.line(
      `given back already: ${settled.refunded} charges, ${describeSums(settled.refundedMinorByCurrency)}`,
    );
  }
  if (settled.disputed > 0) output.line(`disputed and left alone: ${settled.disputed} charges`);
  if (plan !== null) {
    output.line(
      `refund plan ${plan} is stored; nothing was sent. Execute it: chargeonce duplicates --execute ${plan} --reason TEXT`,
    );
  }
}
