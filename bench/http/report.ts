import Table from 'cli-table3';
import { median } from '../vault/charge-client.ts';
import { baseOf, type Contestant } from './contestants.ts';
import type { Measured } from './measure.ts';
import type { Together } from './together.ts';

export interface Result extends Contestant {
  readonly rounds: readonly Measured[];
  readonly together: Together;
}

/** The two tables of a run: what a request cost in each contestant's best round, and how often one key runs. */
export function report(results: readonly Result[]): string {
  const costs = new Table({
    head: [
      'layer',
      'keys in',
      'req/s',
      'middle',
      'of bare',
      'p50 ms',
      'p99 ms',
      'commits',
      'flushes',
      'WAL B',
      'server µs',
      'postgres µs',
    ],
    colAligns: ['left', 'left', ...Array.from({ length: 10 }, () => 'right' as const)],
    style: { head: [], border: [], compact: true },
  });
  for (const result of results) {
    const best = bestRound(result);
    const ratio = ratioToBare(result, results);
    costs.push([
      result.name,
      result.store,
      best.requestsPerSecond.toFixed(0),
      median(result.rounds.map((round) => round.requestsPerSecond)).toFixed(0),
      ratio === null ? '–' : ratio.toFixed(3),
      best.p50Ms,
      best.p99Ms,
      best.commits.toFixed(2),
      best.walFlushes.toFixed(2),
      best.walBytes.toFixed(0),
      (best.serverCpuMs * 1_000).toFixed(0),
      (best.postgresCpuMs * 1_000).toFixed(0),
    ]);
  }
  const keys = new Table({
    head: ['layer', 'handler ran, 200 sends', 'answers', 'ran again after kill -9'],
    style: { head: [], border: [], compact: true },
  });
  for (const { name, keys: kind, together } of results) {
    if (kind === 'known') continue;
    const answers = Object.entries(together.answers).map(([status, n]) => `${n} × ${status}`);
    keys.push([name, together.runs, answers.join(', '), together.runsAfterKill]);
  }
  return `${costs.toString()}\n${keys.toString()}`;
}

/** The round with the highest rate: what else the machine does only takes away. */
export function bestRound({ rounds }: Pick<Result, 'rounds'>): Measured {
  return rounds.reduce((best, round) =>
    round.requestsPerSecond > best.requestsPerSecond ? round : best,
  );
}

/** Its best rate to that of the same framework's bare route; null when that was not measured. */
export function ratioToBare(result: Result, results: readonly Result[]): number | null {
  const bare = results.find(({ name }) => name === baseOf(result).name);
  if (bare === undefined) return null;
  return bestRound(result).requestsPerSecond / bestRound(bare).requestsPerSecond;
}
