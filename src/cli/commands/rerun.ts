import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from '@commander-js/extra-typings';
import { assertNever } from '../../domain/assert-never.ts';
import type { RerunAnswer } from '../../domain/charge.ts';
import type { SlotRef } from '../../domain/ids.ts';
import { readItemAndSlot } from '../../db/slots.ts';
import { readRun } from '../../db/runs.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { defaultOperator, parseSlot, withSession, type Session, type Shell } from '../shell.ts';

const POLL_MS = 300;

export function registerRerun(program: Command, shell: Shell): void {
  program
    .command('rerun')
    .description(
      'bill one customer of a period again: after a decline, a mended request, or a new payment method',
    )
    .argument('<period>', 'the billing period')
    .argument('<customer>', 'our customer id')
    .requiredOption('--reason <text>', 'why, for the audit log')
    .option('--operator <name>', 'who orders it, for the audit log', defaultOperator())
    .option('--request-id <id>', 'the same id again is the same order, executed once')
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--no-wait', 'do not wait for the outcome')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (period, customer, options) => {
      const slot = parseSlot(period, customer, options.namespace);
      const needs = { temporal: true, stripe: true, worker: true };
      await withSession(shell, { needs, json: options.json === true }, async (session) => {
        if ((await readRun(session.platform.database.db, slot)) === null) {
          throw new CommandError(
            EXIT.failed,
            `${slot.period} (${slot.namespace}) was never planned here: nothing to rerun`,
          );
        }
        const client = await session.platform.client();
        const requestId = options.requestId ?? randomUUID();
        const { operator, reason } = options;
        const answer = await client.rerunCustomer({ ...slot, operator, reason, requestId });
        const wait = options.wait && (answer === 'accepted' || answer === 'inDoubt');
        const outcome = wait ? await outcomeOf(session, slot, shell.interrupted) : null;
        session.output.result({ ...slot, requestId, answer, ...outcome });
        session.output.line(explain(answer, slot));
        if (outcome !== null) {
          const why = outcome.reason === null ? '' : ` (${outcome.reason})`;
          session.output.line(
            `${slot.customerId}: ${outcome.state}${why}, generation ${outcome.generation}`,
          );
        }
        if (answer === 'unknownCustomer') shell.exitCode = EXIT.usage;
        else if (outcome?.state === 'indeterminate') shell.exitCode = EXIT.unfinished;
      });
    });
}

/** The slot as it stands once the run has no rerun under way. */
async function outcomeOf(session: Session, slot: SlotRef, interrupted: AbortSignal) {
  const { platform } = session;
  const client = await platform.client();
  while (!interrupted.aborted) {
    const progress = await client.progress(slot);
    if (progress === null || progress.rerunsOpen === 0) break;
    await sleep(POLL_MS);
  }
  const item = await readItemAndSlot(platform.database.db, slot);
  return item?.slot ?? null;
}

function explain(answer: RerunAnswer, slot: SlotRef): string {
  switch (answer) {
    case 'accepted':
      return `${slot.customerId}: accepted`;
    case 'alreadyCharged':
      return `${slot.customerId} is charged for ${slot.period} already: nothing was sent`;
    case 'inDoubt':
      return `${slot.customerId}: an earlier charge is not known yet, so Stripe is asked first and nothing new is opened`;
    case 'nothingDue':
      return `${slot.customerId} has nothing to charge: the amount is zero or there is no payment method (import one first)`;
    case 'unknownCustomer':
      return `${slot.customerId} is not in the plan of ${slot.period}`;
    default:
      return assertNever(answer);
  }
}
