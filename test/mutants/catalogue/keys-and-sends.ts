import { integration, unit, workflow } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

/** Claims, keys, and what is written down before bytes leave. */
export const KEYS_AND_SENDS: readonly Mutant[] = [
  {
    id: 'M1',
    simulated: true,
    bug: 'no claim before the charge',
    edits: [
      {
        file: 'src/workflows/customer-charge.ts',
        find: 'const answer = await claimSlot(slot);',
        replace: "const answer: ClaimAnswer = { kind: 'claimed', generation: 1 };",
      },
    ],
    catcher: workflow(
      'customer-charge',
      'claims, charges and records once when nothing goes wrong',
    ),
  },
  {
    id: 'M1-loser',
    bug: 'whoever loses the claim has it too',
    edits: [
      {
        file: 'src/db/slots.ts',
        find: 'return rows[0]?.won === true;',
        replace: 'return rows.length === 1;',
      },
    ],
    catcher: integration(
      'db-claims',
      'lets one of 50 parallel claims win and tells the other 49 who has the slot',
    ),
  },
  {
    id: 'M2',
    simulated: true,
    bug: 'claim after the charge',
    edits: [
      {
        file: 'src/workflows/customer-charge.ts',
        find: 'const answer = await claimSlot(slot);',
        replace: `const early = await charge({ ...slot, generation: 1 });
  const answer = await claimSlot(slot);
  if (answer.kind === 'claimed') return recordResult(slot, early);`,
      },
    ],
    catcher: workflow(
      'customer-charge',
      'claims, charges and records once when nothing goes wrong',
    ),
  },
  {
    id: 'M2-send',
    simulated: true,
    bug: 'a send is not written down before it leaves',
    edits: [
      {
        file: 'src/db/sends.ts',
        find: `SET first_sent_at = \${FIRST_SENT_AT}
      WHERE idempotency_key = \${send.key}`,
        replace: 'SET first_sent_at = first_sent_at WHERE idempotency_key = ${send.key}',
      },
    ],
    catcher: integration(
      'charge-crashes',
      'does not create again when the create is 25 h old and its reply was lost',
    ),
  },
  {
    id: 'M3',
    simulated: true,
    bug: 'a key per attempt',
    edits: [
      {
        file: 'src/activities/charge.ts',
        find: 'idempotencyKey: key,',
        replace: 'idempotencyKey: `${key}-${sending.attempt.attemptId}`,',
      },
    ],
    catcher: integration('charge-refusals', 'keeps the key when an object is locked three times'),
  },
  {
    id: 'M4',
    bug: 'the clock in the key',
    edits: [
      {
        file: 'src/domain/idempotency-key.ts',
        find: '    String(parts.generation),\n',
        replace: '    String(parts.generation),\n    String(Math.floor(Date.now() / 1000)),\n',
      },
    ],
    catcher: unit('idempotency-key', 'is the same two seconds later'),
  },
  {
    id: 'M4-frozen',
    bug: 'something random in the key, from whoever claims',
    edits: [
      {
        file: 'src/activities/frozen.ts',
        find: 'account: deps.account,',
        replace: 'account: `${deps.account}-${Math.random()}`,',
      },
    ],
    catcher: integration(
      'webhooks-slots',
      'is parked when it comes before our commit, and applied once when the slot is there',
    ),
  },
  {
    id: 'M5',
    bug: 'a new key after a time-out',
    edits: [
      {
        file: 'src/workflows/customer-charge.ts',
        find: 'charged = unknownOutcome(generation, error);',
        replace: `charged = await charge({ ...slot, generation: generation + 1 }).catch((again) =>
      unknownOutcome(generation, error ?? again),
    );`,
      },
    ],
    catcher: workflow(
      'customer-charge',
      'charges again with the same generation where reconcile shows that nothing happened',
    ),
  },
  {
    id: 'M11',
    bug: "the HTTP client's own resend under another key",
    edits: [
      {
        file: 'src/payments/key-guard.ts',
        find: '          [ATTEMPT_HEADER]: inFlight.attemptId,\n',
        replace: `          [ATTEMPT_HEADER]: inFlight.attemptId,
          ...(inFlight.sends > 1 ? { 'Idempotency-Key': \`\${key}-again\` } : {}),\n`,
      },
    ],
    catcher: unit(
      'key-guard',
      'is fresh for the resend of the SDK, which keeps key and bytes and is told before it leaves',
    ),
  },
  {
    id: 'M11-made-up',
    bug: 'a key that the SDK makes up leaves the process',
    edits: [
      {
        file: 'src/payments/key-guard.ts',
        find: ' || SDK_MADE_KEY.test(key)',
        replace: '',
      },
    ],
    catcher: unit(
      'key-guard',
      'does not leave with the key that the SDK makes up, by whatever method of the SDK',
    ),
  },
  {
    id: 'M15',
    bug: 'a second PaymentIntent for generation 2',
    edits: [
      {
        file: 'src/db/generations.ts',
        find: "...(intentMade === undefined ? [{ operation: 'create' as const, ...frozen.create }] : []),",
        replace: "{ operation: 'create' as const, ...frozen.create },",
      },
      {
        file: 'src/activities/charge.ts',
        find: 'if (facts.paymentIntentId === null) return createThenConfirm(charging);',
        replace: 'if (!facts.create.sentBefore) return createThenConfirm(charging);',
      },
    ],
    catcher: integration(
      'charge-refusals',
      'is charged by a rerun with a new card, under the key of generation 2, on the same PaymentIntent',
    ),
  },
  {
    id: 'resend-unrecorded',
    bug: "the SDK's own resend is not recorded",
    edits: [
      {
        file: 'src/activities/charge.ts',
        find: `      startResend(deps.db, key, {
        attempt: { attemptId, activityAttempt, worker: deps.worker },
        lost,
      }),`,
        replace: '      Promise.resolve(void [attemptId, lost]),',
      },
    ],
    catcher: integration(
      'charge-lost-replies',
      'records both sends, each with its own attempt id, when the SDK sends again by itself',
    ),
    stoppedBy: 'answer_has_an_attempt',
  },
  {
    id: 'window-off',
    bug: 'a key is sent however old it is',
    edits: [
      {
        file: 'src/db/sends.ts',
        find: "const SEND_WINDOW = '23 hours';",
        replace: "const SEND_WINDOW = '23000 hours';",
      },
    ],
    catcher: integration(
      'charge-crashes',
      'sends no POST when the confirm is 25 h old and Stripe shows no effect',
    ),
  },
  {
    id: 'window-at-24h',
    bug: "a key is sent up to the edge of Stripe's 24 h, without the hour of margin",
    edits: [
      {
        file: 'src/db/sends.ts',
        find: "const SEND_WINDOW = '23 hours';",
        replace: "const SEND_WINDOW = '24 hours';",
      },
    ],
    catcher: integration('mutant-holes', 'that was first sent %s ago is sent again %i times'),
  },
];
