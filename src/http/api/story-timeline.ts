import type { Story, StoryAttempt, StoryKey } from '../../db/story.ts';
import type { LogRow } from '../../db/vault-log.ts';

/** One thing that happened. */
export interface Moment {
  readonly at: Date;
  readonly kind:
    | 'key'
    | 'sent'
    | 'answered'
    | 'vault'
    | 'looked'
    | 'event'
    | 'resolution'
    | 'refund'
    | 'audit';
  readonly text: string;
  /** the id by which it is found elsewhere */
  readonly ref: string | null;
}

/** A story as one list, in the order in which it happened. Pure. */
export function timelineOf(story: Story): readonly Moment[] {
  const moments: Moment[] = [
    ...story.keys.flatMap((key) => momentsOf(key)),
    ...story.vault.map((row) => vaultMoment(row)),
    ...story.looks.map(({ at, generation, sees, idempotencyKey }) => ({
      at,
      kind: 'looked' as const,
      text: `Stripe showed no effect of generation ${generation}: ${sees}`,
      ref: idempotencyKey,
    })),
    ...story.events.map(({ at, type, eventId, result, state }) => ({
      at,
      kind: 'event' as const,
      text: `${type}: ${result ?? state}`,
      ref: eventId,
    })),
    ...story.resolutions.map(({ at, operator, verdict, evidence, decides, chargeId }) => ({
      at,
      kind: 'resolution' as const,
      text: `${operator} ${decides ? 'decides' : 'proposes'} ${verdict}: ${evidence}`,
      ref: chargeId,
    })),
    ...story.refunds.map(({ plannedAt, finishedAt, chargeId, keptChargeId, state, refundId }) => ({
      at: finishedAt ?? plannedAt,
      kind: 'refund' as const,
      text: `refund of ${chargeId}, while ${keptChargeId} is kept: ${state}`,
      ref: refundId,
    })),
    ...story.audit.map(({ at, actor, action, reason }) => ({
      at,
      kind: 'audit' as const,
      text: `${action} by ${actor}${reason === null ? '' : `: ${reason}`}`,
      ref: null,
    })),
  ];
  // Stable: what has one time stands in the order above.
  return moments.sort((a, b) => a.at.getTime() - b.at.getTime());
}

function momentsOf(key: StoryKey): Moment[] {
  const { operation, generation, idempotencyKey: ref } = key;
  const what = `${operation} of generation ${generation}`;
  return [
    { at: key.createdAt, kind: 'key', text: `key of the ${what}`, ref },
    ...key.attempts.flatMap((attempt) => attemptMoments(what, attempt)),
  ];
}

function attemptMoments(what: string, attempt: StoryAttempt): Moment[] {
  const { attemptId, activityAttempt, sentAt, worker, answer } = attempt;
  const text = `the ${what}, try ${activityAttempt}, by ${worker}`;
  const sent: Moment = { at: sentAt, kind: 'sent', text, ref: attemptId };
  if (answer === null) return [sent];
  const said = answer.status === null ? 'no answer' : `HTTP ${answer.status}`;
  const parts = [
    `${said} to the ${what}`,
    answer.replayed ? "Stripe's saved reply" : null,
    answer.neverReachedStripe ? 'refused by the vault' : null,
    answer.error,
    `${answer.durationMs} ms`,
  ];
  return [
    sent,
    { at: answer.at, kind: 'answered', text: listed(parts), ref: answer.stripeRequestId },
  ];
}

function vaultMoment({ at, method, path, decision, answer, requestId }: LogRow): Moment {
  const went = decision === 'forward' ? 'forwarded' : `refused: ${decision}`;
  const parts = [
    `${method} ${path} ${went}`,
    answer === null ? null : `answered ${answer.status ?? answer.error ?? ''}`,
    answer?.replayed === true ? "Stripe's saved reply" : null,
    answer === null || answer.effect === 'none' ? null : `its sum is ${answer.effect}`,
  ];
  return { at, kind: 'vault', text: listed(parts), ref: requestId };
}

function listed(parts: readonly (string | null)[]): string {
  return parts.filter((part) => part !== null).join(', ');
}
