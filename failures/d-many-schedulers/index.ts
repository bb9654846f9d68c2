import type { Exhibit } from '../harness/exhibit.ts';
import { intervalOnThreeReplicas } from './19-interval-on-three-replicas/exhibit.ts';

/** Many schedulers: timers, locks, leases and releases that each believe they are alone. */
export const manySchedulers: readonly Exhibit[] = [intervalOnThreeReplicas];
