/**
 * Places where a crash hurts, in the order of one customer's charge. Crash tests stop the process, a
 * server or an answer exactly there; the list with what happens next is docs/guarantees.md.
 */
export type CrashPoint =
  | 'beforeClaimCommits'
  | 'afterClaimCommitted'
  | 'beforeCreateSent'
  | 'afterCreateReply'
  | 'afterIntentCommitted'
  | 'afterConfirmReply'
  | 'beforeRecordCommits'
  | 'afterRecordCommitted'
  | 'betweenPurgeBatches';
