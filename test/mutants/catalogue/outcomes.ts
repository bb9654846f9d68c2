import { integration, unit, workflow } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

/** What an answer means, and what may be written over what. */
export const OUTCOMES: readonly Mutant[] = [
  {
    id: 'M6',
    simulated: true,
    bug: 'a 500 treated as success',
    edits: [
      {
        file: 'src/activities/charge.ts',
        find: `      if (!verdict.sameKeyMayHelp)
        return result(charging, indeterminate(verdict.reason), reply.answer);`,
        replace: `      if (!verdict.sameKeyMayHelp) {
        const { amountMinor, currency, paymentIntentId } = charging.facts;
        const id = paymentIntentId ?? 'pi_unknown';
        return result(
          charging,
          { outcome: 'charged', paymentIntentId: id, chargeId: id, amountMinor, currency },
          reply.answer,
        );
      }`,
      },
    ],
    catcher: integration(
      'charge-lost-replies',
      'stays indeterminate, without a charge, when the 500 changed nothing and the key only repeats it',
    ),
  },
  {
    id: 'M6-declined',
    simulated: true,
    bug: 'a 500 treated as a decline',
    edits: [
      {
        file: 'src/payments/classify.ts',
        find: "return { kind: 'indeterminate', reason: 'server_error_500', sameKeyMayHelp: false };",
        replace:
          "return { kind: 'declined', reason: 'server_error_500', advice: 'try_again_later' };",
      },
    ],
    catcher: unit('classify', 'reads %s'),
  },
  {
    id: 'M7',
    bug: 'a 402 is tried again',
    edits: [
      {
        file: 'src/payments/classify.ts',
        find: "return { kind: 'declined', reason, advice: declineAdvice(refusal) };",
        replace: "return { kind: 'notExecuted', reason, retryAfterMs: null };",
      },
    ],
    catcher: unit('classify', 'reads %s'),
  },
  {
    id: 'M8',
    bug: 'record without the fence of the generation',
    edits: [
      {
        file: 'src/db/record.ts',
        find: `        AND generation = \${outcome.generation}
        AND (state IN`,
        replace: '        AND (state IN',
      },
    ],
    catcher: integration('db-record', 'lets no answer of an earlier generation touch a later one'),
    stoppedBy: 'claimed to declined is not an arrow',
  },
  {
    id: 'M8-state',
    simulated: true,
    bug: 'record without the fence of the state: a late decline over a charge',
    edits: [
      {
        file: 'src/db/record.ts',
        find: "OR (state = 'in_review' AND ${closes})",
        replace: "OR state = 'charged' OR (state = 'in_review' AND ${closes})",
      },
    ],
    catcher: integration('db-record', 'leaves a charged slot charged when %s comes late'),
    stoppedBy: 'is charged and never changes',
  },
  {
    id: 'charged-overwritten',
    simulated: true,
    bug: 'a late decline over a charge, in the code and in the database',
    edits: [
      {
        file: 'src/db/record.ts',
        find: "OR (state = 'in_review' AND ${closes})",
        replace: "OR state = 'charged' OR (state = 'in_review' AND ${closes})",
      },
      {
        file: 'migrations/0006_absence-reviews-and-control.sql',
        find: "IF OLD.state = 'charged' THEN",
        replace: 'IF false THEN',
      },
      {
        file: 'migrations/0006_absence-reviews-and-control.sql',
        find: "(OLD.state = 'claimed' AND NEW.state IN (",
        replace: "OLD.state = 'charged' OR (OLD.state = 'claimed' AND NEW.state IN (",
      },
    ],
    catcher: integration('db-record', 'leaves a charged slot charged when %s comes late'),
  },
  {
    id: 'M12',
    bug: 'a reply to the create is taken without looking whose it is',
    edits: [
      {
        file: 'src/activities/charge.ts',
        find: '  if (mismatch !== null) return result(charging, indeterminate(mismatch), reply.answer);\n',
        replace: '',
      },
    ],
    catcher: integration('charge-refusals', 'is indeterminate (%s) and confirms nothing'),
  },
  {
    id: 'M12-confirm',
    simulated: true,
    bug: "a PaymentIntent's status is taken without looking whose it is",
    edits: [
      {
        file: 'src/activities/read-intent.ts',
        find: '  if (mismatch !== null) return settled(indeterminate(mismatch));\n',
        replace: '',
      },
    ],
    catcher: integration(
      'charge-refusals',
      'does not take the success of another PaymentIntent for this one',
    ),
    stoppedBy: 'charge_pays_one_slot',
  },
  {
    id: 'M13',
    simulated: true,
    bug: 'a time-out recorded as declined',
    edits: [
      {
        file: 'src/workflows/customer-charge.ts',
        find: "result: { outcome: 'indeterminate', reason: reasonOf(error), advice: 'reconcile' },",
        replace: `result: {
      outcome: 'declined',
      paymentIntentId: null,
      declinedChargeId: null,
      reason: reasonOf(error),
      advice: 'try_again_later',
    },`,
      },
    ],
    catcher: workflow(
      'customer-charge',
      'records unknown, not declined, when the retries are spent, and asks Stripe in a settle round',
    ),
  },
  {
    id: 'M14',
    bug: 'a rerun raises the generation of a slot in doubt',
    edits: [
      {
        file: 'src/db/reruns.ts',
        find: "      if (await hasOpenKey(trx, order)) return 'inDoubt';\n",
        replace: '',
      },
    ],
    catcher: integration(
      'resolve',
      'closes its generation, and the rerun after it charges once on the same PaymentIntent',
    ),
    stoppedBy: 'generation 1 to 2 from in_review is not allowed',
  },
  {
    id: 'M14-database',
    bug: 'the database lets the generation rise while a key that was sent has no answer',
    edits: [
      {
        file: 'migrations/0006_absence-reviews-and-control.sql',
        find: 'AND g.generation = OLD.generation AND g.outcome IS NULL AND g.first_sent_at IS NOT NULL)',
        replace: 'AND false)',
      },
    ],
    catcher: integration(
      'db-constraints',
      'does not rise from indeterminate while the key that was sent has no answer',
    ),
  },
  {
    id: 'M17',
    bug: 'a 401 after a lost reply recorded as misconfigured',
    edits: [
      {
        file: 'src/activities/charge.ts',
        find: 'const saysNothing = status === 401 || ',
        replace: 'const saysNothing = ',
      },
    ],
    catcher: integration(
      'charge-refused-key',
      "is indeterminate when the API key is refused on the SDK's own resend",
    ),
  },
  {
    id: 'late-401',
    bug: 'a 401 to a confirm is believed without a look',
    edits: [
      {
        file: 'src/activities/charge.ts',
        find: 'return await look(charging, paymentIntentId);',
        replace: 'return null;',
      },
    ],
    catcher: integration(
      'charge-refused-key',
      'is what Stripe shows when a 401 comes after the confirm took effect, as from a gateway',
    ),
  },
  {
    id: 'earlier-decline',
    bug: 'the decline of generation 1 read as the answer to generation 2',
    edits: [
      {
        file: 'src/activities/read-intent.ts',
        find: 'const isNew = declinedCharge !== null && !isOld;',
        replace: 'const isNew = declinedCharge !== null;',
      },
    ],
    catcher: unit('read-intent', 'sees the decline of generation 1 as: not confirmed yet'),
  },
  {
    id: 'processing-for-ever',
    bug: 'a confirm that Stripe carried out is not known by its own answer',
    edits: [
      {
        file: 'src/activities/charge.ts',
        find: '{ tookEffect: true }',
        replace: '{ tookEffect: false }',
      },
    ],
    catcher: integration(
      'reconcile',
      'reads the end of a bank debit that follows an absent generation, although the key only brings "processing" back',
    ),
  },
  {
    id: 'late-success',
    bug: 'a success after a decline is not written down',
    edits: [
      {
        file: 'src/db/record.ts',
        find: "OR (state IN ('declined', 'misconfigured', 'blocked') AND ${charged !== null}))",
        replace: 'OR false)',
      },
    ],
    catcher: integration(
      'db-record',
      'takes a success that Stripe shows after a decline: the slot is charged, and never charged again',
    ),
    stoppedBy: 'Stripe shows a success while the slot is declined',
  },
  {
    id: 'late-success-unseen',
    bug: 'a look at a declined slot passes over the success that Stripe shows',
    edits: [
      {
        file: 'src/activities/reconcile.ts',
        find: `if (found.kind === 'settled' && found.charge.result.outcome === 'charged') return found;
  return { kind: 'settled', charge: outcomeOf(facts, refused) };`,
        replace: "return { kind: 'settled', charge: outcomeOf(facts, refused) };",
      },
    ],
    catcher: integration('look', 'finds the success of a refused slot, and the slot is charged'),
  },
];
