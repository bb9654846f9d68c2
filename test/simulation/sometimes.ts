// What a run of many seeds must have seen, or its green is void. Names as World.saw counts them.
const MUST_BE_SEEN: readonly string[] = [
  // every fault, where it took effect
  ...['resetBefore', 'actThenDrop', 'actThen500', 'fail500', 'lateSuccess500', 'status409'].map(
    (kind) => `stripe fault ${kind}`,
  ),
  ...['status429', 'status502', 'status503', 'slow', 'truncate', 'wrongContentType'].map(
    (kind) => `stripe fault ${kind}`,
  ),
  ...['declineOnce', 'swapped'].map((kind) => `stripe fault ${kind}`),
  ...['refuse', 'lateArrival', 'deliveredTwice'].map((kind) => `planned stripe ${kind}`),
  'client time-out',
  'look-up hidden',
  'intent canceled by hand',
  ...['refused', 'answerLost', '40001', '40P01', '55P03', '53100', '57014', '25006'].map(
    (kind) => `database fault ${kind}`,
  ),
  'commit or statement took effect, answer lost',
  ...['databaseDown', 'stripeDown', 'workerKilled', 'temporalForgets'].map(
    (kind) => `world ${kind}`,
  ),
  ...['twice', 'resultLost', 'killed', 'frozen'].map((kind) => `activity ${kind}`),
  'frozen activity woke up',
  'zombie ended after its time-out',
  'activity outlived its workflow',
  'two at once on one slot',
  'activity time-out HEARTBEAT',
  'activity time-out START_TO_CLOSE',
  'workflow already started',
  'continue as new',
  // every state, and every answer
  ...['claimed', 'sent', 'charged', 'declined', 'indeterminate', 'misconfigured', 'skipped'].map(
    (state) => `slot ${state}`,
  ),
  'slot in_review',
  'slot generation 2',
  'slot generation 3',
  'slot closed as absent',
  ...['declined', 'misconfigured', 'indeterminate'].map((by) => `slot generation rises by ${by}`),
  ...['claimed', 'resumed', 'alreadyCharged', 'declinedBefore', 'inDoubt', 'skipped'].map(
    (answer) => `claimSlot ${answer}`,
  ),
  ...['settled', 'resumable', 'unknown', 'sameKey', 'neverSent', 'absent', 'absentNotProven'].map(
    (answer) => `reconcile ${answer}`,
  ),
  ...['stillProcessing', 'cannotTell'].map((answer) => `reconcile ${answer}`),
  ...['settled', 'unknown'].map((answer) => `look ${answer}`),
  ...['accepted', 'alreadyCharged', 'inDoubt', 'nothingDue', 'unknownCustomer'].map(
    (answer) => `rerun ${answer}`,
  ),
  ...['200', '400', '402', '409', '429', '500', '502', '503'].map((status) => `http ${status}`),
  ...['ChargeIndeterminate', 'ChargeNotExecuted', 'DatabaseUnavailable'].map(
    (type) => `activity failed ${type}`,
  ),
];

/** Fewer seeds than this promise nothing about what is seen. */
export const SEEDS_TO_SEE_ALL = 200;

/** Whatever should have happened at least once and did not. */
export function neverSeen(seen: ReadonlyMap<string, number>): readonly string[] {
  return MUST_BE_SEEN.filter((what) => !seen.has(what));
}
