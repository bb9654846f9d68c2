// One seed from plan to verdict.
import { check, statesSeen } from './check.ts';
import type { SimulatedPostgres } from './database.ts';
import type { Plan } from './plan.ts';
import { World, type WorldOptions } from './world.ts';

export interface Result {
  readonly seed: number;
  readonly problems: readonly string[];
  readonly seen: ReadonlyMap<string, number>;
  readonly lines: readonly string[];
  readonly hash: string;
  readonly virtualMs: number;
  readonly sends: number;
  readonly charged: number;
}

/** Plays a plan and checks how it ended. The same plan and code give the same lines. */
export async function simulate(
  plan: Plan,
  postgres: SimulatedPostgres,
  options: WorldOptions,
): Promise<Result> {
  const world = new World(plan, postgres, options);
  const outcome = await world.run();
  const problems = await check(outcome, postgres);
  for (const state of await statesSeen(postgres)) world.saw(`slot ${state}`);
  const { seen, lines, hash, virtualMs, stripe } = outcome;
  const charged = stripe
    .ledger()
    .reduce(
      (sum, { charges }) => sum + charges.filter(({ status }) => status === 'succeeded').length,
      0,
    );
  return {
    seed: plan.seed,
    problems,
    seen,
    lines,
    hash,
    virtualMs,
    sends: stripe.sends.length,
    charged,
  };
}
