/** What the exit code of every command means; docs/operations.md has the same table. */
export const EXIT = {
  ok: 0,
  /** something failed that the message explains; for audit: the witnesses disagree; for duplicates: some were found */
  failed: 1,
  /** bad input or configuration: nothing was done */
  usage: 2,
  /** the run ended, or goes on, with outcomes that are not known yet, or it is paused or stopped */
  unfinished: 3,
  /** a verdict could not be reached */
  unknown: 4,
  /** a part that is needed (Postgres, Temporal, Stripe, a port) cannot be had */
  unavailable: 5,
  /** Ctrl-C */
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** An error whose message is for the user as it is: what is wrong and what to do. No stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.exitCode = exitCode;
  }
}
