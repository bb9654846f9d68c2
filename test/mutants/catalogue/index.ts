import type { Mutant } from '../mutant.ts';
import { IDEMPOTENCY } from './idempotency.ts';
import { KEYS_AND_SENDS } from './keys-and-sends.ts';
import { OUTCOMES } from './outcomes.ts';
import { REFUNDS_AND_GUARDS } from './refunds-and-guards.ts';
import { RUNS_AND_SWEEPS } from './runs-and-sweeps.ts';
import { UNKNOWN } from './unknown.ts';
import { VAULT } from './vault.ts';
import { VAULT_ENGINE } from './vault-engine.ts';
import { WEBHOOKS } from './webhooks.ts';

/** Every bug to plant, numbered M as they were first listed. */
export const MUTANTS: readonly Mutant[] = [
  ...KEYS_AND_SENDS,
  ...OUTCOMES,
  ...UNKNOWN,
  ...RUNS_AND_SWEEPS,
  ...WEBHOOKS,
  ...REFUNDS_AND_GUARDS,
  ...VAULT,
  ...VAULT_ENGINE,
  ...IDEMPOTENCY,
];
