import type { Kysely } from 'kysely';
import type { DB } from '../db/schema.ts';
import type { RefundGateway } from '../payments/refund-gateway.ts';

/**
 * Where a process may die while it gives money back; tests stop it there. `checked`: nothing is written
 * yet. `marked`: the send is committed and has not left. `answered`: Stripe has executed it, nothing is
 * recorded. `recorded`: the line has ended, nobody was told.
 */
export type RefundCrashPoint = 'checked' | 'marked' | 'answered' | 'recorded';

/** What refunds need of the world; built by a command, or later by a server. */
export interface RefundDeps {
  readonly db: Kysely<DB>;
  readonly refunds: RefundGateway;
  /** part of every key, and compared with the plan's */
  readonly account: string;
  readonly mode: 'test' | 'live';
  /** who sends, as the attempts record it */
  readonly worker: string;
  /** a no-op outside crash tests */
  readonly crashPoint: (point: RefundCrashPoint) => Promise<void>;
}
