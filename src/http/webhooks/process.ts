import { setTimeout as sleep } from 'node:timers/promises';
import { assertNever } from '../../domain/assert-never.ts';
import type { Db } from '../../db/database.ts';
import {
  claimWebhookEvents,
  findEventSlot,
  finishWebhookEvent,
  postponeWebhookEvent,
  type ClaimedEvent,
} from '../../db/webhook-events.ts';
import type { WebhookResult } from '../../db/schema.ts';
import type { SlotRef } from '../../domain/ids.ts';
import type { Log } from '../../log.ts';
import { decide } from './decide.ts';

/** Has somebody look at Stripe for a slot and write down what is there. Sends nothing. */
export type Look = (slot: SlotRef) => Promise<'started' | 'alreadyRunning'>;

export interface ProcessorDeps {
  readonly db: Db;
  readonly look: Look;
  readonly log: Log;
}

/** Bounds of the processor, in milliseconds. Each has its reason in {@link PROCESSOR_LIMITS}. */
export interface ProcessorLimits {
  readonly batch: number;
  readonly leaseMs: number;
  readonly pollMs: number;
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
  readonly longestParkedPauseMs: number;
  readonly giveUpAfterMs: number;
  readonly looksAtRefused: number;
}

export const PROCESSOR_LIMITS: ProcessorLimits = {
  /** at once, each with a statement or two: about the connections of the process's pool */
  batch: 16,
  /** a try is two statements and a start at Temporal: seconds; a crashed one is taken over after this */
  leaseMs: 60_000,
  /** another server's events, and what is due again; this server's own wake it at once */
  pollMs: 2_000,
  /** a charge under way ends within seconds */
  firstPauseMs: 2_000,
  /** while its workflow runs, or Temporal is away */
  longestPauseMs: 3_600_000,
  longestParkedPauseMs: 6 * 3_600_000,
  /** as long as an event can be sent again by hand */
  giveUpAfterMs: 30 * 24 * 3_600_000,
  /** half a day with these pauses; a success that Stripe does not show by then is none */
  looksAtRefused: 20,
};

/**
 * Processes what is due once, and says how many events that was. By two at once, or again after a
 * crash: each event is processed by one of them, and one that was cut off when its lease is over.
 */
export async function processDueEvents(
  deps: ProcessorDeps,
  limits: ProcessorLimits = PROCESSOR_LIMITS,
): Promise<number> {
  const { batch: limit, leaseMs } = limits;
  const claimed = await claimWebhookEvents(deps.db, { limit, leaseMs });
  await Promise.all(claimed.map((event) => processEvent(deps, limits, event)));
  return claimed.length;
}

async function processEvent(
  deps: ProcessorDeps,
  limits: ProcessorLimits,
  event: ClaimedEvent,
): Promise<void> {
  try {
    await attend(deps, limits, event);
  } catch (error) {
    const said = error instanceof Error ? error.message || error.name : String(error);
    deps.log.warn(
      { event: event.eventId, attempt: event.attempt, err: error },
      'webhook event failed',
    );
    // When this fails too the lease runs out, and the event is due again.
    await later(deps, event, {
      state: 'received',
      pauseMs: pauseOf(event.attempt, limits.firstPauseMs, limits.longestPauseMs),
      error: said.slice(0, 200),
      giveUpAfterMs: limits.giveUpAfterMs,
    }).catch((lost: unknown) => deps.log.warn({ err: lost }, 'webhook event left to its lease'));
  }
}

async function attend(
  deps: ProcessorDeps,
  limits: ProcessorLimits,
  event: ClaimedEvent,
): Promise<void> {
  const found = await findEventSlot(deps.db, event);
  const decision = decide(event, found);
  const { firstPauseMs, longestPauseMs, longestParkedPauseMs, giveUpAfterMs } = limits;
  const again = {
    state: 'received',
    pauseMs: pauseOf(event.attempt, firstPauseMs, longestPauseMs),
    error: null,
    giveUpAfterMs,
  } as const;
  switch (decision.kind) {
    case 'finish':
      return finish(deps, event, { result: decision.result, slot: found?.ref });
    case 'wait':
      return later(deps, event, again);
    case 'park': {
      const pauseMs = pauseOf(event.attempt, firstPauseMs, longestParkedPauseMs);
      return later(deps, event, { ...again, state: 'parked', pauseMs });
    }
    case 'look': {
      const ref = found?.ref;
      if (ref === undefined) throw new TypeError('a look needs a slot');
      const answer = await deps.look(ref);
      // Looked at by somebody who may have asked Stripe before this happened: ask again afterwards.
      if (answer === 'alreadyRunning') return later(deps, event, again);
      // A look can fail: the event stays until the slot says that it is charged.
      if (decision.unswept === true && event.attempt < limits.looksAtRefused) {
        return later(deps, event, again);
      }
      return finish(deps, event, { result: 'looked', slot: ref });
    }
    default:
      return assertNever(decision);
  }
}

async function later(
  deps: ProcessorDeps,
  event: ClaimedEvent,
  to: {
    readonly state: 'received' | 'parked';
    readonly pauseMs: number;
    readonly error: string | null;
    readonly giveUpAfterMs: number;
  },
): Promise<void> {
  if (event.ageMs >= to.giveUpAfterMs) {
    return finish(deps, event, { result: to.state === 'parked' ? 'unmatched' : 'gave_up' });
  }
  await postponeWebhookEvent(deps.db, event, to);
}

async function finish(
  deps: ProcessorDeps,
  event: ClaimedEvent,
  end: { readonly result: WebhookResult; readonly slot?: SlotRef | undefined },
): Promise<void> {
  const { result } = end;
  if (!(await finishWebhookEvent(deps.db, event, result))) return;
  const fields = { event: event.eventId, type: event.type, result, slot: end.slot ?? event.slot };
  switch (result) {
    case 'other_success':
      deps.log.error(
        fields,
        'a success of another PaymentIntent than the one of its slot: compare with "chargeonce audit"',
      );
      return;
    case 'unmatched':
    case 'gave_up':
      deps.log.warn(
        fields,
        'webhook event given up: its slot did not come, or could not be looked at',
      );
      return;
    case 'noted':
      deps.log.warn(fields, 'a charge of ours was refunded or disputed: the slot stays charged');
      return;
    case 'looked':
      deps.log.info(fields, 'webhook event asked for a look at Stripe');
      return;
    case 'ignored':
    case 'already_known':
    case 'other_intent':
      deps.log.debug(fields, 'webhook event processed');
      return;
    default:
      assertNever(result);
  }
}

/** Doubled each time, up to the longest. */
function pauseOf(attempt: number, firstMs: number, longestMs: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 30));
}

export interface WebhookProcessor {
  /** There is something new; otherwise it looks at every poll. */
  wake(): void;
  /** Ends after the batch under way. Twice waits for the same end. */
  stop(): Promise<void>;
}

/** Processes events until it is stopped. Any number of processes may do so at once. */
export function startWebhookProcessor(
  deps: ProcessorDeps,
  limits: ProcessorLimits = PROCESSOR_LIMITS,
): WebhookProcessor {
  const end = new AbortController();
  let pause = new AbortController();
  const loop = (async () => {
    while (!end.signal.aborted) {
      let done = 0;
      try {
        done = await processDueEvents(deps, limits);
      } catch (error) {
        deps.log.warn({ err: error }, 'webhook events cannot be read');
      }
      if (done === limits.batch || end.signal.aborted) continue;
      if (!pause.signal.aborted) await sleep(limits.pollMs, undefined, pause).catch(() => {});
      pause = new AbortController();
    }
  })();
  return {
    wake: () => pause.abort(),
    async stop() {
      end.abort();
      pause.abort();
      await loop;
    },
  };
}
