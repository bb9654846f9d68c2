import { sql } from 'kysely';
import { readFileSync } from 'node:fs';
import { round } from '../measure-run.ts';
import { ChargeClient, crowd, median } from './charge-client.ts';
import type { VaultBench } from './vault-bench.ts';

interface How {
  readonly quick: boolean;
  readonly note: (message: string) => void;
}

const UPSTREAM_MS = 150;
const SOCKETS = 64;

/** Median POST through the vault against the same directly, in turns, while Stripe takes 150 ms. */
export async function measureLatency(bench: VaultBench, { quick, note }: How) {
  const charges = quick ? 100 : 400;
  note(
    `${charges} charges directly and through the vault in turns, Stripe takes ${UPSTREAM_MS} ms`,
  );
  bench.stub.latencyMs = UPSTREAM_MS;
  const through = new ChargeClient(bench.proxyUrl, await bench.key(), SOCKETS);
  const direct = new ChargeClient(bench.stub.url, 'sk_test_bench', SOCKETS);
  const times = { direct: new Array<number>(), through: new Array<number>() };
  await crowd(charges, 8, async () => {
    times.direct.push(...(await direct.charge()));
    times.through.push(...(await through.charge()));
  });
  bench.stub.latencyMs = 0;
  direct.close();
  through.close();
  const [directMs, throughMs] = [median(times.direct), median(times.through)];
  return {
    directMs: round(directMs),
    throughMs: round(throughMs),
    latencyRatio: Math.round((throughMs / directMs) * 1_000) / 1_000,
  };
}

/** Commits per forwarded POST, as PostgreSQL counts them; reads, if there were any, among them. */
export async function measureCommits(bench: VaultBench, { quick, note }: How) {
  const charges = quick ? 200 : 1_000;
  note(`${charges} charges, counting commits`);
  const client = new ChargeClient(bench.proxyUrl, await bench.key(), SOCKETS);
  await client.charge();
  await settled();
  const [before, postsBefore] = [await commits(bench), bench.stub.posts];
  await crowd(charges, 16, () => client.charge());
  await settled();
  const [after, posts] = [await commits(bench), bench.stub.posts - postsBefore];
  client.close();
  return { commitsPerPost: round((after - before) / posts) };
}

/** Charges (create and confirm) per second through one vault process, with a Stripe that answers at once. */
export async function measureRate(bench: VaultBench, { quick, note }: How) {
  const charges = quick ? 1_000 : 6_000;
  note(`${charges} charges as fast as they go, ${SOCKETS} at once`);
  const client = new ChargeClient(bench.proxyUrl, await bench.key(), SOCKETS);
  await crowd(200, SOCKETS, () => client.charge());
  const began = performance.now();
  await crowd(charges, SOCKETS, () => client.charge());
  const seconds = (performance.now() - began) / 1_000;
  client.close();
  return { chargesPerSecond: round(charges / seconds) };
}

/** Resident memory of the vault after all requests against that after the first fifth. */
export async function measureMemory(bench: VaultBench, { quick, note }: How) {
  const requests = quick ? 10_000 : 100_000;
  note(`${requests} requests, watching the vault's memory`);
  const client = new ChargeClient(bench.proxyUrl, await bench.key(), SOCKETS);
  const memory: number[] = [];
  for (let fifth = 1; fifth <= 5; fifth += 1) {
    await crowd(requests / 10, SOCKETS, () => client.charge());
    memory.push(residentMb(bench.pid));
    note(`  ${(requests / 5) * fifth} requests: ${round(memory.at(-1) ?? 0)} MB`);
  }
  client.close();
  const [early = 0, late = 0] = [memory[0], memory.at(-1)];
  return {
    requests,
    memoryEarlyMb: round(early),
    memoryLateMb: round(late),
    memoryGrowth: Math.round((late / early) * 1_000) / 1_000,
  };
}

async function commits({ platform }: VaultBench): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    SELECT xact_commit AS n FROM pg_stat_database WHERE datname = current_database()`.execute(
    platform.database.db,
  );
  return rows[0]?.n ?? 0;
}

/** A session that falls idle tells its counts after ten seconds. */
function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 11_000));
}

function residentMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024;
}
