import type { Exhibit } from '../harness/exhibit.ts';
import { intervalOnThreeReplicas } from './19-interval-on-three-replicas/exhibit.ts';
import { checkThenInsert } from './20-check-then-insert/exhibit.ts';
import { advisoryLock } from './21-advisory-lock/exhibit.ts';
import { cronjobAndTimer } from './22-cronjob-and-timer/exhibit.ts';
import { triggerRetriedByBalancer } from './23-trigger-retried-by-balancer/exhibit.ts';
import { rollingDeploy } from './24-rolling-deploy/exhibit.ts';
import { leaderHandOff } from './25-leader-hand-off/exhibit.ts';

/** Many schedulers: timers, locks, leases and releases that each believe they are alone. */
export const manySchedulers: readonly Exhibit[] = [
  intervalOnThreeReplicas,
  checkThenInsert,
  advisoryLock,
  cronjobAndTimer,
  triggerRetriedByBalancer,
  rollingDeploy,
  leaderHandOff,
];
