import { z } from 'zod';
import type { Platform } from '../src/cli/platform.ts';
import type { RunRef } from '../src/domain/ids.ts';
import { measureRun, round } from './measure-run.ts';

const CHARGES_PER_SECOND = 24;

export interface RateMeasures {
  /** confirms per second between the first and the last, against the limit */
  readonly rateUtilisation: number;
  /** customers per second from the start of the workflow to its end, against the limit */
  readonly rateUtilisationWholeRun: number;
  readonly http429: number;
}

/** A run at the charge limit with the provider's own limit just above it. */
export async function measureRateLimit(
  platform: Platform,
  run: RunRef,
  customers: number,
): Promise<RateMeasures> {
  const url = platform.simulatorUrl ?? '';
  const since = Date.now();
  const measured = await measureRun(platform, run, customers);
  // The simulator's log outlives its process: what came before this run is another measurement's.
  const confirms = (await confirmTimes(url)).filter((at) => at >= since);
  const first = confirms[0] ?? 0;
  const last = confirms.at(-1) ?? 0;
  const perSecond = (confirms.length - 1) / ((last - first) / 1000);
  const counters = countersSchema.parse(await (await fetch(`${url}/_sim/counters`)).json());
  return {
    rateUtilisation: round(perSecond / CHARGES_PER_SECOND),
    rateUtilisationWholeRun: round(measured.customersPerSecond / CHARGES_PER_SECOND),
    http429: counters.byStatus['429'] ?? 0,
  };
}

const countersSchema = z.object({ byStatus: z.record(z.string(), z.number()) });
const requestsSchema = z.object({
  requests: z.array(z.object({ seq: z.number(), endpoint: z.string(), at: z.iso.datetime() })),
});

/** When each confirm reached the provider, in milliseconds, in order. */
async function confirmTimes(url: string): Promise<readonly number[]> {
  const times: number[] = [];
  for (let after = 0; ;) {
    const answer = await fetch(`${url}/_sim/requests?after=${after}`);
    const page = requestsSchema.parse(await answer.json()).requests;
    const last = page.at(-1);
    if (last === undefined) break;
    for (const request of page) {
      if (request.endpoint === 'payment_intents.confirm') times.push(Date.parse(request.at));
    }
    after = last.seq;
  }
  return times.sort((a, b) => a - b);
}
