import { randomUUID } from 'node:crypto';
import { Option, type Command } from '@commander-js/extra-typings';
import { assertNever } from '../../domain/assert-never.ts';
import type { SlotRef } from '../../domain/ids.ts';
import { describeAmount } from '../../domain/money-text.ts';
import { readDossier, type Dossier } from '../../db/dossier.ts';
import { resolveSlot, type ResolutionAnswer, type Verdict } from '../../db/resolutions.ts';
import { constraintOf } from '../../db/sqlstate.ts';
import { checkAbsent, checkCharge, type ResolvedSlot } from '../../payments/check-resolution.ts';
import { LookupFailed } from '../../payments/gateway.ts';
import { createStripeGateway } from '../../payments/stripe-gateway.ts';
import { stripeOfRun } from '../biller.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { bold, table } from '../output.ts';
import { defaultOperator, parseSlot, withSession, type Session, type Shell } from '../shell.ts';

const EXPLANATION = `
Without --as, shows what is known of the customer's charge, and changes nothing.
  --as charged   the charge named by --charge pays this period; Stripe is asked whether it does
  --as absent    nothing was charged: the customer is billed again under a new key, on the same PaymentIntent
Only a slot that is in review, or whose keys are too old to be sent again, can be resolved: everything else
Stripe answers by itself. RESOLVE_APPROVERS=2 asks for a second person who says the same.`;

const MAX_EVIDENCE = 400;

interface Options {
  readonly as?: 'charged' | 'absent' | undefined;
  readonly charge?: string | undefined;
  readonly evidence?: string | undefined;
  readonly operator: string;
}

export function registerResolve(program: Command, shell: Shell): void {
  program
    .command('resolve')
    .description('decide about a charge that Stripe cannot answer for, or show what is known of it')
    .argument('<period>', 'the billing period')
    .argument('<customer>', 'our customer id')
    .addOption(
      new Option('--as <verdict>', 'what happened').choices(['charged', 'absent'] as const),
    )
    .option('--charge <id>', 'with --as charged: the charge that pays it, ch_…')
    .option('--evidence <text>', 'what you saw and where, for the audit log')
    .option('--operator <name>', 'who decides, for the audit log', defaultOperator())
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--no-rerun', 'with --as absent: do not bill the customer again now')
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText('after', EXPLANATION)
    .action(async (period, customer, options) => {
      const slot = parseSlot(period, customer, options.namespace);
      checkOptions(options);
      const absent = options.as === 'absent' && options.rerun;
      const needs = {
        stripe: options.as !== undefined,
        ...(absent ? { temporal: true, worker: true } : {}),
      };
      await withSession(shell, { needs, json: options.json === true }, async (session) => {
        const dossier = await readDossier(session.platform.database.db, slot);
        if (dossier === null) {
          throw new CommandError(
            EXIT.failed,
            `${slot.customerId} has no slot in ${slot.period} (${slot.namespace}): nobody has tried to charge it`,
          );
        }
        if (options.as === undefined) return show(session, slot, dossier);
        const answer = await decide(session, { slot, dossier, options });
        const rerun =
          answer.kind === 'decided' && absent ? await billAgain(session, slot, options) : null;
        session.output.result({ ...slot, ...answer, rerun });
        session.output.line(explain(answer, slot, options));
        if (rerun !== null) session.output.line(`billed again: ${rerun}`);
        if (answer.kind === 'proposed') shell.exitCode = EXIT.unfinished;
        else if (answer.kind !== 'decided') shell.exitCode = EXIT.failed;
      });
    });
}

function checkOptions(options: Options): void {
  const problem = problemOf(options);
  if (problem !== null) throw new CommandError(EXIT.usage, problem);
}

function problemOf({ as, charge, evidence }: Options): string | null {
  if (as === undefined) {
    const orders = evidence !== undefined || charge !== undefined;
    return orders ? 'say --as charged or --as absent' : null;
  }
  const said = evidence ?? '';
  if (said.trim() === '') return '--evidence must say what you saw, and where';
  // It goes into the rerun's reason as well, which takes no more.
  if (said.length > MAX_EVIDENCE || /\p{Cc}/u.test(said)) {
    return `--evidence must be one line of at most ${MAX_EVIDENCE} characters`;
  }
  if (as === 'absent') return charge === undefined ? null : '--charge goes with --as charged';
  if (/^(ch|py)_[A-Za-z0-9_]+$/.test(charge ?? '')) return null;
  return '--as charged needs --charge ch_…: the charge that pays this period';
}

async function decide(
  session: Session,
  on: { slot: SlotRef; dossier: Dossier; options: Options },
): Promise<ResolutionAnswer> {
  const { slot, dossier, options } = on;
  const { config, platform } = session;
  const { state } = dossier;
  if (state !== 'indeterminate' && state !== 'in_review') return { kind: 'notOpen', state };
  const verdict = await checkedVerdict(session, { ...dossier, ...slot }, options);
  try {
    return await resolveSlot(platform.database.db, slot, {
      verdict,
      evidence: options.evidence ?? '',
      operator: options.operator,
      approvers: config.RESOLVE_APPROVERS,
    });
  } catch (error) {
    const constraint = constraintOf(error);
    const taken =
      constraint === 'charge_pays_one_slot' || constraint === 'payment_intent_serves_one_slot';
    if (!taken) throw error;
    throw new CommandError(
      EXIT.failed,
      `${options.charge ?? ''} pays another slot already: nothing was changed`,
      error,
    );
  }
}

/** The verdict, once Stripe has not contradicted it. */
async function checkedVerdict(
  session: Session,
  dossier: ResolvedSlot,
  options: Options,
): Promise<Verdict> {
  const { biller } = session.platform;
  if (biller === null) throw new Error('resolving asks Stripe');
  const stripe = await stripeOfRun(biller, dossier);
  const gateway = createStripeGateway({
    apiKey: stripe.apiKey.reveal(),
    apiBase: stripe.apiBase,
    timeoutMs: stripe.timeoutMs,
  });
  try {
    if (options.as === 'absent') {
      const problem = await checkAbsent(gateway, dossier);
      if (problem !== null) throw new CommandError(EXIT.failed, problem);
      return { as: 'absent' };
    }
    const chargeId = options.charge ?? '';
    const checked = await checkCharge(gateway, dossier, chargeId);
    if (!checked.ok) throw new CommandError(EXIT.failed, checked.problem);
    return { as: 'charged', chargeId, paymentIntentId: checked.paymentIntentId };
  } catch (error) {
    if (!(error instanceof LookupFailed)) throw error;
    throw new CommandError(
      error.status === 404 ? EXIT.failed : EXIT.unavailable,
      `Stripe does not confirm it (${error.message}): nothing was changed`,
      error,
    );
  } finally {
    gateway.close();
  }
}

async function billAgain(session: Session, slot: SlotRef, options: Options): Promise<string> {
  const client = await session.platform.client();
  return client.rerunCustomer({
    ...slot,
    operator: options.operator,
    reason: `resolved as absent: ${options.evidence ?? ''}`.slice(0, 500),
    requestId: randomUUID(),
  });
}

function show({ output }: Session, slot: SlotRef, dossier: Dossier): void {
  output.result({ ...slot, ...dossier });
  const why = dossier.reason === null ? '' : ` (${dossier.reason})`;
  output.line(
    `${bold(slot.customerId)} in ${slot.period}: ${dossier.state}${why}, generation ${dossier.generation}, ` +
      `${describeAmount(dossier.amountMinor, dossier.currency)}, ${dossier.stripeCustomerId}, ` +
      `PaymentIntent ${dossier.paymentIntentId ?? 'not known'}`,
  );
  output.line(
    table(
      ['when', 'what', 'details'],
      dossier.events.map(({ at, what, details }) => [at.toISOString(), what, details]),
    ),
  );
}

function explain(answer: ResolutionAnswer, slot: SlotRef, options: Options): string {
  const { customerId, period } = slot;
  switch (answer.kind) {
    case 'decided':
      return `${customerId} in ${period} is resolved as ${options.as ?? ''}, by ${options.operator}`;
    case 'proposed':
      return `${customerId}: noted. Somebody else than ${answer.by} must say the same (RESOLVE_APPROVERS=2)`;
    case 'tooEarly':
      return `${customerId}: its key is younger than 23 h, so Stripe is still asked by itself; nothing was changed`;
    case 'notOpen':
      return `${customerId} is ${answer.state ?? 'not claimed'}: there is nothing to resolve`;
    default:
      return assertNever(answer);
  }
}
