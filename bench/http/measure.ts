import type { Platform } from '../../src/cli/platform.ts';
import { cpuMs } from '../processes.ts';
import type { Contestant } from './contestants.ts';
import { counts, emptyTable, postmasterPid } from './counts.ts';
import { runLoad, startServer, type LoadOptions, type ServerOptions } from './part.ts';

/** One contestant in one round. */
export interface Measured {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly serverCpuMs: number;
  readonly postgresCpuMs: number;
  readonly commits: number;
  readonly walFlushes: number;
  readonly walBytes: number;
}

/** What is the same for all contestants. */
export interface Ring {
  readonly platform: Platform;
  readonly server: ServerOptions;
  readonly load: LoadOptions;
}

/** A fresh server process under load; all figures but the rate and the latencies are per request. */
export async function measure(contestant: Contestant, ring: Ring): Promise<Measured> {
  const { platform } = ring;
  await emptyTable(platform);
  const postgres = await postmasterPid(platform);
  if (contestant.keys === 'known') await answerOnce(contestant, ring);
  const before = await counts(platform);
  const server = await startServer(contestant, ring.server);
  try {
    let serverFrom = 0;
    let postgresFrom = 0;
    const seen = await runLoad(server.url, contestant, {
      ...ring.load,
      atStart() {
        serverFrom = cpuMs(server.pid);
        postgresFrom = cpuMs(postgres);
      },
    });
    const serverMs = cpuMs(server.pid) - serverFrom;
    const postgresMs = cpuMs(postgres) - postgresFrom;
    if (seen.refused > 0)
      throw new Error(`${contestant.name}: ${seen.refused} requests were not answered 2xx`);
    await server.end('SIGTERM');
    const after = await counts(platform);
    return {
      requestsPerSecond: seen.measured / seen.seconds,
      p50Ms: seen.p50Ms,
      p99Ms: seen.p99Ms,
      serverCpuMs: serverMs / seen.measured,
      postgresCpuMs: postgresMs / seen.measured,
      commits: (after.commits - before.commits) / seen.sent,
      walFlushes: (after.walFlushes - before.walFlushes) / seen.sent,
      walBytes: (after.walBytes - before.walBytes) / seen.sent,
    };
  } finally {
    await server.end('SIGKILL');
  }
}

/** By a process of its own, so that the counts of the repeats are theirs alone. */
async function answerOnce(contestant: Contestant, ring: Ring): Promise<void> {
  const server = await startServer(contestant, ring.server);
  try {
    await runLoad(server.url, contestant, { ...ring.load, once: true });
    await server.end('SIGTERM');
  } finally {
    await server.end('SIGKILL');
  }
}
