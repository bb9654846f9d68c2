import type { ActivityDeps } from '../../src/activities/deps.ts';
import type { CrashPoint } from '../../src/activities/crash-points.ts';

/** A crash point at which so many have to arrive before any goes on: what runs after it is a race. */
export function meetAt(place: CrashPoint, count: number): ActivityDeps['crashPoint'] {
  let arrived = 0;
  const all = Promise.withResolvers<void>();
  return async (point) => {
    if (point !== place) return;
    arrived += 1;
    if (arrived === count) all.resolve();
    await all.promise;
  };
}
