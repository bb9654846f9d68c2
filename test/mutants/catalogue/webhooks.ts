import { integration, unit } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

const INBOX = 'src/db/webhook-events.ts';
const ROUTE = 'src/http/routes/stripe-webhook.ts';

/** Stripe's events: verified, stored, acknowledged, processed once, hints only. */
export const WEBHOOKS: readonly Mutant[] = [
  {
    id: 'M10',
    bug: 'the purge removes events that are still waiting',
    edits: [
      {
        file: INBOX,
        find: "WHERE state = 'processed' AND processed_at < now() - ${which.olderThanDays}",
        replace: 'WHERE received_at < now() - ${which.olderThanDays}',
      },
      {
        file: INBOX,
        find: " AND event.state = 'processed'`",
        replace: '`',
      },
    ],
    catcher: integration(
      'webhooks',
      'purges old processed events in batches, and never one that waits, however old',
    ),
    stoppedBy: 'is not processed and is not deleted',
  },
  {
    id: 'M10-database',
    bug: 'the database lets an event be deleted that is still waiting',
    edits: [
      {
        file: 'migrations/0007_webhook-events.sql',
        find: "IF OLD.state <> 'processed' THEN",
        replace: 'IF false THEN',
      },
    ],
    catcher: integration(
      'webhooks',
      'refuses in the database to delete an event that is not processed',
    ),
  },
  {
    id: 'event-moves-slot',
    bug: 'an event moves its slot by its own words',
    edits: [
      {
        file: 'src/http/webhooks/process.ts',
        find: "import { decide } from './decide.ts';",
        replace: `import { decide } from './decide.ts';
import { recordOutcome } from '../../db/record.ts';`,
      },
      {
        file: 'src/http/webhooks/process.ts',
        find: '      const answer = await deps.look(ref);',
        replace: `      if (event.type.endsWith('.succeeded')) {
        const paymentIntentId = event.paymentIntentId ?? '';
        const said = { paymentIntentId, chargeId: event.eventId, amountMinor: 1, currency: 'usd' };
        const result = { outcome: 'charged', ...said } as const;
        const told = { generation: 1, result, answer: null, actor: 'webhook' };
        await recordOutcome(deps.db, ref, told);
        return finish(deps, event, { result: 'looked', slot: ref });
      }
      const answer = await deps.look(ref);`,
      },
    ],
    catcher: integration(
      'webhooks-slots',
      'has a declined slot stay declined when a forged success is not what Stripe shows',
    ),
  },
  {
    id: 'event-twice',
    bug: 'an event that comes again is processed again',
    edits: [
      {
        file: INBOX,
        find: ".onConflict((conflict) => conflict.column('event_id').doNothing())",
        replace: `.onConflict((conflict) =>
      conflict
        .column('event_id')
        .doUpdateSet({ state: 'received', result: null, processed_at: null }),
    )`,
      },
      {
        file: 'migrations/0007_webhook-events.sql',
        find: "IF OLD.state = 'processed' AND TG_OP = 'UPDATE' THEN",
        replace: 'IF false THEN',
      },
    ],
    catcher: integration(
      'webhooks',
      'stores an event once when it comes twenty times in parallel, and answers 200 to all',
    ),
  },
  {
    id: 'event-lease',
    bug: 'two processors take one event',
    edits: [
      {
        file: INBOX,
        find: "next_try_at = now() + ${how.leaseMs} * interval '1 millisecond'\n    FROM due",
        replace: 'next_try_at = now()\n    FROM due',
      },
    ],
    catcher: integration(
      'webhooks',
      'gives each event to one of several processors that claim at once',
    ),
  },
  {
    id: 'event-fence',
    bug: 'a processor whose lease is over still ends its event',
    edits: [
      {
        file: INBOX,
        find: `last_error: null })
    .where('event_id', '=', claim.eventId)
    .where('attempts', '=', claim.attempt)\n`,
        replace: `last_error: null })
    .where('event_id', '=', claim.eventId)\n`,
      },
    ],
    catcher: integration(
      'webhooks',
      'gives an event to another processor when a lease runs out, and takes nothing more from the first',
    ),
  },
  {
    id: 'event-success',
    bug: 'a success event is passed over when the slot says declined',
    edits: [
      {
        file: 'src/http/webhooks/decide.ts',
        find: "return meaning === 'success' ? { kind: 'look', unswept: true } : finish('already_known');",
        replace: "return finish('already_known');",
      },
    ],
    catcher: unit(
      'webhook-decision',
      'has every slot that is not charged looked at after %s: a success is the truth',
    ),
  },
  {
    id: 'signature-age',
    bug: 'a signature of any age is taken',
    edits: [
      {
        file: 'src/payments/stripe-webhook.ts',
        find: "  if (Math.abs(ageSeconds) > SIGNATURE_TOLERANCE_SECONDS) return refused('stale_signature');\n",
        replace: '',
      },
      {
        file: 'src/payments/stripe-webhook.ts',
        find: '      SIGNATURE_TOLERANCE_SECONDS,\n      undefined,',
        replace: '      0,\n      undefined,',
      },
    ],
    catcher: unit('webhook-signature', 'of a signature that is %i s old makes: %s'),
  },
  {
    id: 'ack-first',
    bug: 'an event is acknowledged before it is stored',
    edits: [
      {
        file: ROUTE,
        find: 'const stored = await store(deps, event);',
        replace: `const stored = 'stored' as 'stored' | 'conflict' | null;
    void store(deps, event);`,
      },
    ],
    catcher: integration(
      'webhooks',
      'answers 503 when the event cannot be stored, and stores it when it comes again',
    ),
  },
  {
    id: 'foreign-event',
    bug: 'events of another account are taken',
    edits: [
      {
        file: ROUTE,
        find: 'if (event.livemode !== deps.liveMode || !isOwnAccount(event, deps.account)) {',
        replace: 'if (event.livemode !== deps.liveMode) {',
      },
    ],
    catcher: integration('webhooks', 'refuses an event of %s and stores nothing'),
  },
];
