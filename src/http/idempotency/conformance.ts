import { ANSWERS, ENDS } from './conformance-answers.ts';
import { CLAIMS, TAKEOVERS } from './conformance-claims.ts';
import { Scene, type ConformanceCheck } from './conformance-scene.ts';

export type { ConformanceCheck, ConformanceTools } from './conformance-scene.ts';

/**
 * What `IdempotencyStore` promises, as checks for any test runner: each runs by itself, on keys of its own, against a
 * store that may hold other keys. One after another, since a purge is everybody's.
 */
export function storeConformance(): readonly ConformanceCheck[] {
  return [...CLAIMS, ...TAKEOVERS, ...ANSWERS, ...ENDS].map(([name, run]) => ({
    name,
    run: (store, tools) => run(new Scene(store, tools)),
  }));
}
