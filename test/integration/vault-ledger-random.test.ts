import fc from 'fast-check';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readDrift } from '../../src/db/vault-drift.ts';
import { startLedger, type Ledger } from '../support/vault-ledger.ts';
import {
  ANSWER_KINDS,
  bindStep,
  expectedState,
  newModel,
  perform,
  play,
  stateOf,
  type Bound,
  type Model,
  type Step,
} from '../support/vault-model.ts';

let ledger: Ledger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.close());

const sum = fc.integer({ min: 0, max: 3 });
const pick = fc.nat({ max: 50 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('create' as const), sum }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('confirm' as const),
      sum,
      generation: fc.integer({ min: 1, max: 2 }),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant('answer' as const),
      pick,
      answer: fc.constantFrom(...ANSWER_KINDS),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('look' as const),
      sum,
      to: fc.constantFrom('spent', 'released', 'absent', 'absent', 'absent', 'held'),
      stale: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('raise' as const),
      byMinor: fc.integer({ min: 1, max: 15 }),
    }),
  },
);
/** One step, or two at once; not two looks, on whose order their own clocks would not agree, nor two raises. */
const moment = fc
  .oneof({ weight: 2, arbitrary: fc.tuple(step) }, { weight: 3, arbitrary: fc.tuple(step, step) })
  .filter(([one, other]) => one.kind !== other?.kind || !['look', 'raise'].includes(one.kind));
const history = fc.record({
  moments: fc.array(moment, { minLength: 10, maxLength: 40, size: 'max' }),
  revokedAt: fc.option(fc.nat({ max: 60 }), { freq: 3 }),
});

/** Both orders of what happened at once, each with what it would say. */
function orders(model: Model, steps: readonly Bound[]) {
  return [steps, steps.toReversed()].map((order) => {
    let now = model;
    const said = new Map<string, string>();
    for (const one of order) {
      const outcome = play(now, one);
      now = outcome.model;
      said.set(one.name, outcome.said);
    }
    const shown = { said: steps.map(({ name }) => said.get(name)), state: expectedState(now) };
    return { model: now, shown };
  });
}

describe('the ledger', () => {
  it('agrees with a small model after every step of random histories, pairs at once included', async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(history, async ({ moments, revokedAt }) => {
        const keyId = await ledger.key(25);
        const requestIds = new Map<string, string>();
        let model = newModel(25);
        const withRevoke = moments.map((steps, i): readonly Step[] =>
          i === revokedAt ? [...steps.slice(0, 1), { kind: 'revoke' }] : steps,
        );
        for (const [i, steps] of withRevoke.entries()) {
          const bound = steps.flatMap((one, j) => {
            const about = 'sum' in one ? one.sum : '-';
            return bindStep(model, one, `${about}.${i}.${j}`) ?? [];
          });
          const said = await Promise.all(
            bound.map((one) => perform({ ledger, keyId, requestIds }, one)),
          );
          for (const word of said) seen.add(word);
          const state = await stateOf(ledger, keyId);
          const possible = orders(model, bound);
          expect(possible.map(({ shown }) => shown)).toContainEqual({ said, state });
          model =
            possible.find(({ shown }) => isDeepStrictEqual(shown, { said, state }))?.model ?? model;
        }
        expect((await readDrift(ledger.db)).differing).toEqual([]);
      }),
      { numRuns: 25 },
    );
    expect([...seen].toSorted()).toEqual([
      'forward',
      'held',
      'raised',
      'released',
      'revoked',
      'spend_cap_exceeded',
      'spent',
      'unknown_payment_intent',
      'vault_key_revoked',
    ]);
  });
});
