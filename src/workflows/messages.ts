import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { OutcomeCounts, RerunAnswer, RerunOrder } from '../domain/charge.ts';
import type { RunRef } from '../domain/ids.ts';

export type RunPhase = 'planning' | 'charging' | 'paused' | 'stopping' | 'settling' | 'completed';

export interface RunProgress extends RunRef {
  readonly phase: RunPhase;
  readonly customers: number;
  /** customers whose workflow has ended, as the shards reported it */
  readonly finished: number;
  readonly counts: OutcomeCounts;
  /** why the run is paused or stopped, and by whom */
  readonly note: string | null;
  readonly settleRound: number;
  readonly rerunsOpen: number;
}

export interface OperatorOrder {
  readonly operator: string;
  readonly reason: string;
}

export interface ResumeAnswer {
  /** customers that are not finished, at most this many charges follow */
  readonly chargesToFire: number;
}

/** What `rerunCustomer` carries; the run it goes to says namespace and period. */
export type RerunMessage = Pick<RerunOrder, 'customerId' | 'requestId' | 'operator' | 'reason'>;

/** Fire and forget: same order as the update, without an answer. Twice with one request id: once. */
export const rerunCustomerSignal = defineSignal<[RerunMessage]>('rerunCustomer');
/** Answers what becomes of the order before it runs. Twice with one request id: one answer. */
export const rerunCustomerUpdate = defineUpdate<RerunAnswer, [RerunMessage]>('rerunCustomerUpdate');

export const pauseRunUpdate = defineUpdate<void, [OperatorOrder]>('pauseRun');
export const resumeRunUpdate = defineUpdate<ResumeAnswer, [OperatorOrder]>('resumeRun');
export const stopRunUpdate = defineUpdate<void, [OperatorOrder]>('stopRun');

export const progressQuery = defineQuery<RunProgress>('progress');

export type ShardMode = 'running' | 'paused' | 'stopped';

/** Root → shard. Applies to customers not yet started; those in flight finish. */
export const shardModeSignal = defineSignal<[ShardMode]>('shardMode');

export interface ShardReport {
  readonly finished: number;
  readonly counts: OutcomeCounts;
  /** set when Stripe refused the API key: every other customer would be refused too */
  readonly stopsRun: string | null;
}

/** Shard → root: what has ended since the last report. */
export const shardReportSignal = defineSignal<[ShardReport]>('shardReport');
