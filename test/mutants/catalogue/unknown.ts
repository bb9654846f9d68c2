import { integration, unit } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

/** Finding out what became of a send. */
export const UNKNOWN: readonly Mutant[] = [
  {
    id: 'M20',
    bug: 'a look-up that fails means that nothing is there',
    edits: [
      {
        file: 'src/activities/reconcile.ts',
        find: '    throw tryAgain(FAILURES.chargeIndeterminate, error.message);',
        replace: '    return nothingFound(deps, facts, reach);',
      },
    ],
    catcher: integration(
      'reconcile',
      'takes a look-up that fails for no answer, however often, and opens nothing',
    ),
  },
  {
    id: 'M20-charge',
    bug: 'a charge sends although its look-up failed',
    edits: [
      {
        file: 'src/activities/charge.ts',
        find: '    throw tryAgain(FAILURES.chargeIndeterminate, error.message);',
        replace: '    return null;',
      },
    ],
    catcher: integration(
      'charge-refused-key',
      'is indeterminate when the API key is refused on the next attempt',
    ),
  },
  {
    id: 'one-read',
    bug: 'absence proven by one look',
    edits: [
      {
        file: 'src/db/absence.ts',
        find: '!noted.quiet || !noted.confirmed ||',
        replace: '!noted.quiet ||',
      },
    ],
    catcher: integration(
      'reconcile',
      'opens generation 2 after two looks at an empty list, and charges once',
    ),
  },
  {
    id: 'quiet-time',
    bug: 'no quiet time before and between the looks',
    edits: [
      {
        file: 'src/activities/reconcile.ts',
        find: 'quietMs: deps.absenceQuietMs,',
        replace: 'quietMs: 0,',
      },
    ],
    catcher: integration('reconcile', 'needs a quiet time after the send and between both looks'),
  },
  {
    id: 'looks-differ',
    bug: 'two looks that saw different things count as two that agree',
    edits: [
      {
        file: 'src/db/absence.ts',
        find: `        AND NOT EXISTS (SELECT FROM absence_reads other
          WHERE other.idempotency_key = r.idempotency_key AND other.id > r.id AND other.sees <> r.sees)\n`,
        replace: '',
      },
    ],
    catcher: integration('reconcile', 'does not add up two looks that saw different things'),
  },
  {
    id: 'adopt-skipped',
    bug: 'a PaymentIntent that was found is not kept: a second create',
    edits: [
      {
        file: 'src/activities/find-intent.ts',
        find: '  await adoptIntent(deps.db, facts.slot, { generation, paymentIntentId: found.id });',
        replace: '  void [adoptIntent, generation];',
      },
    ],
    catcher: integration(
      'charge-lost-replies',
      'confirms the PaymentIntent that was made although its create was answered with a 500',
    ),
  },
  {
    id: 'not-ours',
    bug: 'any PaymentIntent of the customer over the same amount is taken for ours',
    edits: [
      {
        file: 'src/activities/find-intent.ts',
        find: '    intent.metadata[METADATA.key] === facts.create.key &&\n',
        replace: '',
      },
    ],
    catcher: integration(
      'mutant-holes',
      'is not taken from another charge of the customer over the same amount',
    ),
  },
  {
    id: 'events-unread',
    bug: 'an intent that the list does not show is not looked for among events',
    edits: [
      {
        file: 'src/activities/find-intent.ts',
        find: '(await findInList(deps, facts, sentAt)) ?? (await findByEvent(deps, facts, sentAt));',
        replace: 'await findInList(deps, facts, sentAt);\n  void findByEvent;',
      },
    ],
    catcher: integration(
      'look',
      'finds the intent by its event when the list of the customer does not show it',
    ),
  },
  {
    id: 'first-page',
    bug: 'only the first page of a list is read',
    edits: [
      {
        file: 'src/payments/stripe-lists.ts',
        find: 'if (!list.has_more || after === null) return;',
        replace: 'if (after !== null || !list.has_more) return;',
      },
    ],
    catcher: unit('key-guard', 'reads every page of the list, and never asks Search'),
  },
  {
    id: 'spent-key',
    bug: 'a key that Stripe answers with a saved 500 is sent for ever',
    edits: [
      {
        file: 'src/activities/reconcile.ts',
        find: 'if (facts.confirm.windowOpen && !facts.confirm.spent) return sameKey(facts);',
        replace: 'if (facts.confirm.windowOpen) return sameKey(facts);',
      },
    ],
    catcher: integration(
      'reconcile',
      'charges once, under the next generation, when a saved 500 stands before the %s and nothing happened',
    ),
  },
  {
    id: 'look-opens',
    bug: 'a look that may only read opens the next generation',
    edits: [
      {
        file: 'src/activities/reconcile.ts',
        find: "known === null ? ask(deps, facts, 'readOnly')",
        replace: "known === null ? ask(deps, facts, 'mayOpen')",
      },
    ],
    catcher: integration('look', 'sends nothing and opens nothing where a send would be next'),
  },
];
