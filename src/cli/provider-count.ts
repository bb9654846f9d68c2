import type { RunRef } from '../domain/ids.ts';
import { quickCount } from '../audit/quick-count.ts';
import type { Platform } from './platform.ts';
import { providerWitness } from './provider-witness.ts';

/** Charged twice and lost, counted in the provider's own list and our tables, for the end of a run. */
export async function countAtProvider(at: {
  platform: Platform;
  run: RunRef;
  since: Date;
}): Promise<{ doubleCharged: number; lost: number }> {
  const { platform, run, since } = at;
  const provider = await providerWitness(platform, since);
  return quickCount({ databaseUrl: platform.databaseUrl.reveal(), run, provider });
}
