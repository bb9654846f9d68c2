/**
 * Every failure type that can cross a process border, by the string it is matched on. The same list,
 * with what to do about each, is docs/errors.md; a test compares the two.
 */
export const FAILURES = {
  /** thrown by charge: something may have been sent and no answer is known; the same key again */
  chargeIndeterminate: 'ChargeIndeterminate',
  /** thrown by charge: Stripe did not execute it (409 in use, 429, lock time-out); the same key again */
  chargeNotExecuted: 'ChargeNotExecuted',
  /** thrown by charge and reconcile: this process is being stopped; another one, the same key */
  workerStopping: 'WorkerStopping',
  /** thrown by any activity: the database is away or busy; again */
  databaseUnavailable: 'DatabaseUnavailable',
  /** a row says something that no code path can explain; a person must look */
  invariantBroken: 'InvariantBroken',
  /** the run was asked for a period it has no plan for */
  runNotPlanned: 'RunNotPlanned',
  /** a late order came for a run that was cut off; the run is to be started again first */
  runInterrupted: 'RunInterrupted',
  /** no active customer is due anything */
  noCustomers: 'NoCustomers',
  /** database, Stripe account and mode do not belong together */
  environmentMismatch: 'EnvironmentMismatch',
  /** a message to a workflow lacks a field or has a malformed one */
  invalidMessage: 'InvalidMessage',
  /** the vault does not answer; nothing was sent, again */
  vaultUnavailable: 'VaultUnavailable',
  /** the vault will not open the run: wrong token, revoked key, another plan than ours */
  vaultRefused: 'VaultRefused',
  /** a POST without our idempotency key was about to leave */
  keyMissing: 'IdempotencyKeyMissing',
  /** the tick knows neither from its argument nor from the Schedule which period to bill */
  periodUnknown: 'PeriodUnknown',
} as const;

export type FailureType = (typeof FAILURES)[keyof typeof FAILURES];
