import type { FaultPlan, FaultRule } from '../../../src/simulator/index.ts';

type Shape = Omit<FaultRule, 'id' | 'nth' | 'limit' | 'rate'> & { readonly rate: number };

/** The worker gives up on an answer after this; the simulator's slow answers take longer. */
export const STRIPE_TIMEOUT_MS = 4_000;
const SLOW_MS = STRIPE_TIMEOUT_MS + 2_000;
/** On the provider's clock. */
const LATE_SUCCESS_MS = 4_000;

const CREATE = 'payment_intents.create';
const CONFIRM = 'payment_intents.confirm';
const ANY = 'payment_intents.*';

const SHAPES: readonly Shape[] = [
  // Took effect, and nobody was told: the ones that make a naive client charge twice.
  { kind: 'actThenDrop', endpoint: CONFIRM, rate: 0.06 },
  { kind: 'actThenDrop', endpoint: CREATE, rate: 0.05 },
  { kind: 'truncate', endpoint: ANY, rate: 0.02 },
  { kind: 'actThen500', endpoint: CONFIRM, rate: 0.01 },
  { kind: 'actThen500', endpoint: CREATE, rate: 0.01, shouldRetry: false },
  { kind: 'lateSuccess500', endpoint: CONFIRM, rate: 0.01, delayMs: LATE_SUCCESS_MS },
  { kind: 'status503', endpoint: ANY, rate: 0.005, act: true },
  { kind: 'status504', endpoint: ANY, rate: 0.005, act: true },
  { kind: 'slow', endpoint: CONFIRM, rate: 0.005, delayMs: SLOW_MS },
  { kind: 'wrongContentType', endpoint: ANY, rate: 0.01 },
  { kind: 'doubleReply', endpoint: ANY, rate: 0.01 },
  // Took no effect.
  { kind: 'refuse', endpoint: ANY, rate: 0.01 },
  { kind: 'resetBefore', endpoint: ANY, rate: 0.02 },
  { kind: 'fail500', endpoint: ANY, rate: 0.005 },
  { kind: 'status409', endpoint: ANY, rate: 0.01 },
  { kind: 'status429', endpoint: ANY, rate: 0.01 },
  { kind: 'status429', endpoint: ANY, rate: 0.005, reason: 'lock_timeout' },
  { kind: 'status502', endpoint: ANY, rate: 0.005 },
  { kind: 'status503', endpoint: ANY, rate: 0.01, shouldRetry: true },
  { kind: 'status503', endpoint: ANY, rate: 0.005, shouldRetry: false },
  { kind: 'declineOnce', endpoint: CONFIRM, rate: 0.01, declineCode: 'insufficient_funds' },
];

/** A fault that met a saved reply has no effect; the next of these requests gets it. */
const EARLY_TRIES = 8;
const EARLY_STEP = 5;

/**
 * The provider's faults. Each has a rate, and one early appointment, so that a short run does not
 * depend on luck to see every kind.
 */
export function stripeFaults(seed: number): FaultPlan {
  const rules = SHAPES.flatMap((shape, index): FaultRule[] => {
    const name = `${shape.kind}-${index}`;
    const { rate, ...rest } = shape;
    const nth = Array.from({ length: EARLY_TRIES }, (_, n) => 3 + index + n * EARLY_STEP);
    return [
      { ...rest, id: `${name}-early`, nth, limit: 1 },
      { ...rest, id: name, rate },
    ];
  });
  return { seed, rules };
}

/** The kinds of the plan, as they are counted. */
export const STRIPE_KINDS: readonly string[] = [...new Set(SHAPES.map(({ kind }) => kind))];

/** Executed at the provider, and no whole answer reached the caller. */
export function lostItsAnswer(request: {
  readonly executed: boolean;
  readonly fault: string | null;
  readonly faultKind: string | null;
}): boolean {
  if (!request.executed) return false;
  const { faultKind } = request;
  return faultKind === 'actThenDrop' || faultKind === 'truncate' || faultKind === 'slow';
}
