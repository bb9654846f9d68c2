import { integration } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

/** Giving back once, the environment's guard, and the stop of a worker. */
export const REFUNDS_AND_GUARDS: readonly Mutant[] = [
  {
    id: 'refund-key',
    bug: 'the key of a refund from its amount',
    edits: [
      {
        file: 'src/refunds/plan-refunds.ts',
        find: 'refundKey({ account, mode, chargeId, planId, line });',
        replace:
          'refundKey({ account, mode, chargeId: String(amountMinor), planId, line: amountMinor });',
      },
    ],
    catcher: integration('refunds', 'gives two charges of one sum back under two keys'),
    stoppedBy: 'refund_key_is_unique',
  },
  {
    id: 'refund-blind',
    bug: 'a refund that was sent before is sent again without a look',
    edits: [
      {
        file: 'src/refunds/refund-line.ts',
        find: 'if (line.sentBefore) {\n      const outcome',
        replace: 'if (line.sentBefore && false) {\n      const outcome',
      },
    ],
    catcher: integration(
      'refunds-faults',
      'a key past its time is looked up before anything is sent, and what is found is not sent again',
    ),
  },
  {
    id: 'refund-counted',
    bug: 'the charge that a slot counts on is given back',
    edits: [
      {
        file: 'src/refunds/refund-line.ts',
        find: "  if (counted.charges.size + counted.intents.size > 0) return 'slot_counts_on_it';\n",
        replace: '',
      },
      {
        file: 'migrations/0009_refunds.sql',
        find: `  IF EXISTS (SELECT FROM billing_charges s WHERE s.charge_id = NEW.charge_id)
    OR EXISTS (SELECT FROM billing_charges s WHERE s.payment_intent_id = NEW.payment_intent_id) THEN`,
        replace: '  IF false THEN',
      },
    ],
    catcher: integration(
      'refunds',
      'a send for a charge that a slot has come to count on since it was planned',
    ),
  },
  {
    id: 'environment',
    bug: "the environment's guard is off",
    edits: [
      {
        file: 'src/db/environment.ts',
        find: 'if (differencesOf(bound, here).length > 0) throw new EnvironmentMismatch(bound, here);',
        replace: 'void [bound, here];',
      },
    ],
    catcher: integration(
      'environment',
      'lets nothing be planned by a worker that is up when the database behind it is exchanged',
    ),
  },
  {
    id: 'environment-asked-once',
    bug: 'a worker asks at its start only what it is billing from',
    edits: [
      {
        file: 'src/activities/run.ts',
        find: `  await deps.requireEnvironment();
  const planned = await planRun(deps.db, run, plannedBy);`,
        replace: '  const planned = await planRun(deps.db, run, plannedBy);',
      },
    ],
    catcher: integration(
      'environment',
      'lets nothing be planned by a worker that is up when the database behind it is exchanged',
    ),
  },
  {
    id: 'late-send',
    bug: 'a worker that is being stopped still sends',
    edits: [
      {
        file: 'src/activities/drain.ts',
        find: 'if (performance.now() + this.#times.answerMs > this.#stopsAt) throw handOver();',
        replace: 'void this.#times.answerMs;',
      },
    ],
    catcher: integration(
      'mutant-holes',
      'sends nothing whose answer could come too late, and the next worker charges once',
    ),
  },
];
