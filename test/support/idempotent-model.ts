import type { Takeover } from '../../src/http/idempotency/index.ts';

/**
 * What one key is, one step at a time. There is no clock in it: a lease or a retention is over at once (0 ms) or never,
 * so that an end is somebody's step and no matter of timing.
 */
export type KeyState =
  | { readonly kind: 'free' }
  | {
      readonly kind: 'held';
      readonly request: number;
      readonly holder: string;
      /** null: given in an answer that was lost */
      readonly fence: number | null;
      readonly takenOver: boolean;
      readonly over: Over;
    }
  | {
      readonly kind: 'stored';
      readonly request: number;
      /** null: somebody else than a holder said it */
      readonly holder: string | null;
      readonly fence: number | null;
      readonly body: string;
      readonly over: Over;
    };

/** Whether the lease or the retention is over; the time when the call had ended that made it so. */
type Over = false | number;

/** A call of the store for the key; `over`: with a time of 0 ms. */
export type Step =
  | {
      readonly kind: 'claim';
      readonly request: number;
      readonly holder: string;
      readonly takeover: Takeover;
      readonly over: boolean;
    }
  | { readonly kind: 'look'; readonly request: number }
  | {
      readonly kind: 'renew';
      readonly holder: string;
      readonly fence: number;
      readonly over: boolean;
    }
  | {
      readonly kind: 'complete';
      readonly holder: string;
      readonly fence: number;
      readonly body: string;
      readonly over: boolean;
    }
  | { readonly kind: 'abandon'; readonly holder: string }
  | { readonly kind: 'resolve'; readonly body: string | null; readonly over: boolean };

/** What a call answered, in one line; a claim that took the key has its fence besides. */
export interface Said {
  readonly text: string;
  readonly fence: number | null;
}

interface Next {
  readonly state: KeyState;
  readonly said: string;
}

export const FREE: KeyState = { kind: 'free' };
const NO_FENCE = 0;

/** How a call went. */
export interface Course {
  readonly begunAt: number;
  /** infinite where the answer was lost */
  readonly endedAt: number;
  readonly said: Said | null;
  /** it overlapped others */
  readonly met: boolean;
}

/**
 * The states that the key may be in after a call that answered this; none: the answer was wrong. Without an answer, which
 * was lost, every right one counts. Two answers are right as well that a clock and a lock make: who began before an end
 * had come may not see it yet, as long as nothing is changed on the strength of that; and a claim may say in flight
 * where somebody else is at the row.
 */
export function statesAfter(state: KeyState, step: Step, course: Course): readonly KeyState[] {
  const { said } = course;
  const next = [after(state, step, course)];
  if (state.kind !== 'free' && state.over !== false) {
    const early = after({ ...state, over: false }, step, course).said;
    const mayBeEarly = course.begunAt < state.over && isRefusal(early);
    const mayBeLocked = course.met && step.kind === 'claim' && early === 'inFlight';
    if (mayBeEarly || mayBeLocked) next.push({ state, said: early });
    // A stored response whose time is over may be gone, and its holder does not matter to anybody any more.
    if (step.kind === 'complete' && state.kind === 'stored') next.push({ state, said: 'lost' });
  }
  return next
    .filter((one) => said === null || one.said === said.text)
    .map((one) => one.state)
    .filter((one) => said === null || hasRightFence(state, one, said));
}

function isRefusal(said: string): boolean {
  return /^(inFlight|mismatch|notInterrupted|stored .*)$/.test(said);
}

/** A new holder's fence is greater than the one before it; the same try has the same one. */
function hasRightFence(before: KeyState, now: KeyState, said: Said): boolean {
  if (said.fence === null || now.kind !== 'held') return true;
  if (before.kind !== 'held' || before.fence === null) return said.fence > NO_FENCE;
  return before.holder === now.holder ? said.fence === before.fence : said.fence > before.fence;
}

function after(state: KeyState, step: Step, course: Course): Next {
  const over = 'over' in step && step.over ? course.endedAt : false;
  switch (step.kind) {
    case 'claim':
      return afterClaim(state, step, { fence: course.said?.fence ?? null, over });
    case 'look':
      return { state, said: seen(state, step.request) };
    case 'renew':
      return isHeldBy(state, step)
        ? { state: { ...state, over }, said: 'renewed' }
        : { state, said: 'lost' };
    case 'complete':
      if (isHeldBy(state, step)) {
        const { request, holder } = state;
        const { body, fence } = step;
        return {
          state: { kind: 'stored', request, holder, fence, body, over },
          said: 'stored',
        };
      }
      return { state, said: isAnsweredBy(state, step) ? 'stored' : 'lost' };
    case 'abandon':
      if (state.kind !== 'held' || state.holder !== step.holder) return { state, said: '' };
      return { state: state.takenOver ? { ...state, over: course.endedAt } : FREE, said: '' };
    case 'resolve': {
      if (state.kind !== 'held' || state.over === false) return { state, said: 'notInterrupted' };
      const { body } = step;
      const { request } = state;
      const resolved = { kind: 'stored', request, holder: null, fence: null, over } as const;
      return { state: body === null ? FREE : { ...resolved, body }, said: 'resolved' };
    }
  }
}

function afterClaim(
  state: KeyState,
  step: Step & { readonly kind: 'claim' },
  given: { readonly fence: number | null; readonly over: Over },
): Next {
  const { request, holder, takeover } = step;
  const begun = { kind: 'held', request, holder, takenOver: false, ...given } as const;
  if (state.kind === 'free' || (state.kind === 'stored' && state.over !== false))
    return { state: begun, said: 'claimed' };
  if (state.kind === 'held' && state.request === request) {
    const taken = { ...begun, takenOver: true };
    if (state.holder === holder)
      return state.takenOver
        ? { state: taken, said: 'takenOver' }
        : { state: begun, said: 'claimed' };
    if (state.over !== false && takeover === 'rerun') return { state: taken, said: 'takenOver' };
  }
  return { state, said: seen(state, request) };
}

function seen(state: KeyState, request: number): string {
  if (state.kind === 'free' || (state.kind === 'stored' && state.over !== false)) return 'nothing';
  if (state.request !== request) return 'mismatch';
  if (state.kind === 'stored') return `stored ${state.body}`;
  return state.over === false ? 'inFlight' : 'interrupted';
}

interface ByHolder {
  readonly holder: string;
  readonly fence: number;
}

function isHeldBy(
  state: KeyState,
  { holder, fence }: ByHolder,
): state is KeyState & { readonly kind: 'held' } {
  return state.kind === 'held' && state.holder === holder && (state.fence ?? fence) === fence;
}

function isAnsweredBy(state: KeyState, { holder, fence }: ByHolder): boolean {
  return state.kind === 'stored' && state.holder === holder && state.fence === fence;
}
