import { setCurrentDetails } from '@temporalio/workflow';
import { NO_OUTCOMES, type OutcomeCounts } from '../domain/charge.ts';
import type { RunRef } from '../domain/ids.ts';
import { addCounts } from '../domain/outcome-counts.ts';
import { describeCounts } from './counts-table.ts';
import type { RunPhase, RunProgress, ShardMode, ShardReport } from './messages.ts';

/** What a run knows of itself. Plain state; the handlers and the main line both work on it. */
export class RunState {
  readonly run: RunRef;
  /** workflow IDs of the nodes under way */
  readonly nodes = new Set<string>();
  mode: ShardMode = 'running';
  phase: RunPhase = 'planning';
  settleRound = 0;
  rerunsOpen = 0;
  #customers = 0;
  #finished = 0;
  #counts: OutcomeCounts = NO_OUTCOMES;
  #note: string | null = null;
  #unsettled = false;
  #orders = 0;
  #roundIsDue = false;

  constructor(run: RunRef) {
    this.run = run;
  }

  planned(customers: number): void {
    this.#customers = customers;
  }

  enter(phase: RunPhase): void {
    this.phase = phase;
    this.#show();
  }

  report(report: ShardReport): void {
    this.#finished += report.finished;
    this.#counts = addCounts(this.#counts, report.counts);
    this.#show();
  }

  setMode(mode: ShardMode, note: string | null): void {
    this.#orders += 1;
    this.mode = mode;
    this.#note = note;
    this.#show();
  }

  stopped(): boolean {
    return this.mode === 'stopped';
  }

  /**
   * The next settle round does not wait for its pause: there is somebody to attend to now. Nor does the run close before
   * one: the last round may have passed them already.
   */
  settleSoon(): void {
    this.#roundIsDue = true;
    this.#unsettled = true;
  }

  roundIsDue(): boolean {
    return this.#roundIsDue;
  }

  roundBegins(): void {
    this.#roundIsDue = false;
  }

  /** Counts changes of mode, for whoever must know that none came in between. */
  orders(): number {
    return this.#orders;
  }

  /** No rerun is under way. */
  idle(): boolean {
    return this.rerunsOpen === 0;
  }

  rerunEndedUnknown(): void {
    this.#unsettled = true;
  }

  unsettled(): boolean {
    return this.#unsettled;
  }

  /** True once after a rerun ended unknown. */
  takeUnsettled(): boolean {
    const unsettled = this.#unsettled;
    this.#unsettled = false;
    return unsettled;
  }

  progress(): RunProgress {
    const stopping = this.mode === 'stopped' && this.phase !== 'completed';
    const phase = stopping ? 'stopping' : this.mode === 'paused' ? 'paused' : this.phase;
    return {
      ...this.run,
      phase,
      customers: this.#customers,
      finished: this.#finished,
      counts: this.#counts,
      note: this.#note,
      settleRound: this.settleRound,
      rerunsOpen: this.rerunsOpen,
    };
  }

  #show(): void {
    const { phase, customers, finished, note } = this.progress();
    const head = `**${phase}** · ${finished} of ${customers} customers reported`;
    const why = note === null ? [] : [note];
    setCurrentDetails([head, ...why, describeCounts(this.#counts)].join('\n\n'));
  }
}
