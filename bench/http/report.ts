import Table from 'cli-table3';
import { median } from '../vault/charge-client.ts';
import { baseOf, type Contestant } from './contestants.ts';
import type { Measured } from './measure.ts';
import type { Together } from './together.ts';

export interface Result extends Contestant {
  readonly rounds: readonly Measured[];
  readonly together: Together;
}

/** The two tables of a run: what a request costs, and how often one key runs. */
export function report(results: readonly Result[]): string {
  const costs = new Table({
    head: [
      'layer',
      'keys in',
      'req/s',
      'best',
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
    const { name, store, rounds } = result;
    const ratio = ratioToBare(result, results);
    const middleOf = (of: keyof Measured): number => median(rounds.map((round) => round[of]));
    costs.push([
      name,
      store,
      middleOf('requestsPerSecond').toFixed(0),
      bestPerSecond(result).toFixed(0),
      ratio === null ? '–' : ratio.toFixed(3),
      middleOf('p50Ms'),
      middleOf('p99Ms'),
      middleOf('commits').toFixed(2),
      middleOf('walFlushes').toFixed(2),
      middleOf('walBytes').toFixed(0),
      (middleOf('serverCpuMs') * 1_000).toFixed(0),
      (middleOf('postgresCpuMs') * 1_000).toFixed(0),
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

/** The rate of the best round: what else the machine does only takes away. */
export function bestPerSecond({ rounds }: Pick<Result, 'rounds'>): number {
  return Math.max(...rounds.map((round) => round.requestsPerSecond));
}

/**
 * The middle of the rounds' ratios, each to the bare route of the same framework in the same round; null when that was
 * not measured.
 */
export function ratioToBare(result: Result, results: readonly Result[]): number | null {
  const bare = results.find(({ name }) => name === baseOf(result).name);
  if (bare === undefined) return null;
  return median(
    result.rounds.map(
      (round, at) => round.requestsPerSecond / (bare.rounds[at]?.requestsPerSecond ?? Number.NaN),
    ),
  );
}
