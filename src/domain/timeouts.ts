/**
 * Time-outs and bounds that lean on each other, in milliseconds; {@link assertTimeouts} holds the
 * relations, and the worker calls it when it starts.
 */

/** One HTTP request to Stripe. A slow confirm takes seconds; longer means that it is lost. */
export const STRIPE_TIMEOUT_MS = 30_000;

/** Requests one charge may make in a row: look-up, create, confirm, the SDK's resend of each POST. */
const REQUESTS_PER_CHARGE = 5;

/** One attempt of charge or reconcile, waiting for the pacer included. */
export const CHARGE_START_TO_CLOSE_MS = 180_000;

/** A worker that was killed or frozen is noticed after this. */
export const HEARTBEAT_TIMEOUT_MS = 10_000;

/** Attempts with the same key before the outcome is indeterminate: about two minutes of pauses. */
export const CHARGE_MAXIMUM_ATTEMPTS = 8;
export const RECONCILE_MAXIMUM_ATTEMPTS = 4;

/**
 * How long a stopping worker lets its charges finish. A request to Stripe that could outlast it is not begun any more:
 * the charge is handed over. What follows the last answer is a statement or two in Postgres.
 */
export const SHUTDOWN_GRACE_MS = 40_000;

/** How long a worker that has drained waits to record its last charges itself; another worker may do it. */
export const RECORD_WAIT_MS = 3_000;

/** Pauses of the retry policy add up to no more than this. */
const CHARGE_RETRY_PAUSES_MS = 125_000;

/** Stripe keeps a key at least this long. */
const STRIPE_KEY_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** Throws when a change of one number breaks what another relies on. */
export function assertTimeouts(stripeTimeoutMs: number): void {
  require(stripeTimeoutMs * REQUESTS_PER_CHARGE <
    CHARGE_START_TO_CLOSE_MS, 'a charge could still be talking to Stripe when Temporal gives it up (start-to-close)');
  require(stripeTimeoutMs < SHUTDOWN_GRACE_MS, 'a stopping worker would cut off its charges');
  require(CHARGE_MAXIMUM_ATTEMPTS * CHARGE_START_TO_CLOSE_MS + CHARGE_RETRY_PAUSES_MS <
    STRIPE_KEY_LIFETIME_MS, 'the retry policy would outlive the key at Stripe');
}

function require(holds: boolean, problem: string): void {
  if (!holds) throw new RangeError(`time-outs do not fit together: ${problem}`);
}
