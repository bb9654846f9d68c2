import { setTimeout as sleep } from 'node:timers/promises';
import type { RunClient } from '../client.ts';
import { readRunSummary, type RunSummary } from '../db/run-summary.ts';
import type { RunRef } from '../domain/ids.ts';
import type { RunProgress } from '../workflows/messages.ts';
import type { Output } from './output.ts';
import type { Platform } from './platform.ts';
import { totalOf } from '../domain/outcome-counts.ts';

/** How often the database is asked; one grouped count over the period. */
const POLL_MS = 500;
/** The run itself is asked less often: a query costs its worker a workflow task. */
const QUERY_EVERY = 4;
/** Without a terminal a line is written only when this much more is done. */
const LINE_EVERY_PERCENT = 10;
const BAR_WIDTH = 24;

export type FollowEnd = 'closed' | 'paused' | 'interrupted';

export interface FollowOptions {
  readonly platform: Platform;
  readonly output: Output;
  readonly run: RunRef;
  readonly interrupted: AbortSignal;
  /** sees each summary, for a demo that acts on the way */
  readonly onSummary?: (summary: RunSummary) => Promise<void>;
}

/**
 * Shows a run's progress until its workflow closes, it is paused, or the user interrupts. What is shown
 * comes from the database, so it also goes on while workers or the Temporal server restart.
 */
export async function followRun(options: FollowOptions): Promise<FollowEnd> {
  const { platform, run, output } = options;
  const client = await platform.client();
  const bar = createBar(output);
  for (let poll = 0; !options.interrupted.aborted; poll += 1) {
    const asked = performance.now();
    const summary = await readRunSummary(platform.database.db, run).catch(() => null);
    // Counting a million customers takes seconds: it must not be all that the database does.
    const pauseMs = Math.max(POLL_MS, (performance.now() - asked) * 4);
    if (summary !== null) {
      bar.show(summary);
      await options.onSummary?.(summary);
    }
    if (await isClosed(client, run)) return 'closed';
    if (poll % QUERY_EVERY === QUERY_EVERY - 1) {
      const progress = await client.progress(run).catch(() => null);
      bar.phase(progress);
      if (progress?.phase === 'paused') {
        output.note(progress.note ?? 'the run is paused');
        output.note(`"chargeonce resume ${run.period} --reason …" lets it go on`);
        return 'paused';
      }
    }
    await sleep(pauseMs, undefined, { signal: options.interrupted }).catch(() => {});
  }
  return 'interrupted';
}

async function isClosed(client: RunClient, run: RunRef): Promise<boolean> {
  try {
    const { status } = await client.run(run).describe();
    return status.name !== 'RUNNING' && status.name !== 'CONTINUED_AS_NEW';
  } catch {
    // The server may be restarting; a run that is gone for good shows when it is back.
    return false;
  }
}

function createBar(output: Output) {
  const started = performance.now();
  let phase = 'charging';
  let firstDone: number | null = null;
  let lastPercent = -LINE_EVERY_PERCENT;
  return {
    phase(progress: RunProgress | null): void {
      if (progress === null) return;
      const round = progress.settleRound > 0 ? ` round ${progress.settleRound}` : '';
      phase = progress.phase === 'settling' ? `settling${round}` : progress.phase;
    },
    show(summary: RunSummary): void {
      const done = totalOf(summary.counts) + summary.inReview;
      firstDone ??= done;
      const seconds = (performance.now() - started) / 1000;
      const rate = seconds > 0 ? (done - firstDone) / seconds : 0;
      const line = barLine({ summary, done, rate, phase });
      output.redraw(line);
      const percent = Math.floor((done / summary.customers) * 100);
      if (!output.interactive && percent >= lastPercent + LINE_EVERY_PERCENT) {
        lastPercent = percent;
        output.note(line);
      }
    },
  };
}

function barLine(at: { summary: RunSummary; done: number; rate: number; phase: string }): string {
  const { summary, done, rate } = at;
  const filled = Math.round((done / summary.customers) * BAR_WIDTH);
  const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
  const left = rate > 0 ? `${Math.ceil((summary.customers - done) / rate)} s left` : '';
  const { charged, declined, indeterminate, skipped } = summary.counts;
  return [
    `${bar} ${done}/${summary.customers}`,
    at.phase,
    `${rate.toFixed(1)}/s`,
    `charged ${charged}`,
    `declined ${declined}`,
    `unknown ${indeterminate}`,
    `skipped ${skipped}`,
    ...(done < summary.customers && left !== '' ? [left] : []),
  ].join(' · ');
}
