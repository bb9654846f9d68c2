import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { moveRun, planRun } from '../../src/db/runs.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { Feeds } from '../../src/http/api/feeds.ts';
import { attend, runRef, slotRef, startEngine, type Engine } from '../support/engine.ts';
import { startOperatorApi, VERA, type OperatorApi } from '../support/operator-api.ts';
import { openEvents, type EventReader } from '../support/event-reader.ts';

const STREAMS = 3;
let engine: Engine;
let api: OperatorApi;
const readers: EventReader[] = [];

beforeAll(async () => {
  engine = await startEngine();
  api = await startOperatorApi(engine.db, {
    account: engine.deps.account,
    limits: { streams: STREAMS },
  });
  await engine.plan(['e1', 'e2'].map((id) => ({ id })));
});
afterEach(async () => {
  for (const reader of readers.splice(0)) reader.leave();
  await vi.waitUntil(async () => (await openStreams()) === 0, { timeout: 20_000 });
});
afterAll(async () => {
  await api.close();
  await engine.close();
});

async function openStreams(): Promise<number> {
  const { body } = await api.call('GET', '/metrics', { as: VERA });
  return Number(/^chargeonce_http_event_streams (\d+)$/m.exec(String(body))?.[1] ?? 0);
}

async function listen(run: RunRef = runRef(), from: OperatorApi = api): Promise<EventReader> {
  const path = `/v1/runs/${run.period}/events?namespace=${run.namespace}`;
  const reader = await openEvents(from.url, path, await from.tokenOf(VERA));
  readers.push(reader);
  return reader;
}

describe('GET /v1/runs/{period}/events', () => {
  it('begins with how the run stands, tells of each change once, and ends when the run is over', async () => {
    const run = runRef('2027-01');
    await planRun(engine.db, run, 'test');
    const reader = await listen(run);
    expect(reader.status).toBe(200);
    expect(reader.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(reader.headers.get('cache-control')).toBe('no-store');
    expect(await reader.next()).toMatchObject({
      event: 'progress',
      data: { state: 'planned', customers: 2, unclaimed: 2, counts: { charged: 0 } },
    });
    await attend(engine.deps, slotRef('e1', run));
    expect(await reader.next()).toMatchObject({
      event: 'progress',
      data: { unclaimed: 1, counts: { charged: 1 }, charged: { usd: 1500 } },
    });
    await moveRun(engine.db, run, { state: 'completed', actor: 'test' });
    expect(await reader.next()).toMatchObject({ event: 'progress', data: { state: 'completed' } });
    expect(await reader.next()).toEqual({ event: 'end', data: {} });
    expect(await reader.next()).toBeNull();
  });

  it('ends at once for a run that is over already, with its last state', async () => {
    const run = runRef('2027-02');
    await planRun(engine.db, run, 'test');
    await moveRun(engine.db, run, { state: 'stopped', actor: 'test' });
    const reader = await listen(run);
    expect(await reader.next()).toMatchObject({ event: 'progress', data: { state: 'stopped' } });
    expect(await reader.next()).toEqual({ event: 'end', data: {} });
    expect(await reader.next()).toBeNull();
  });

  it('is 503 beyond the streams that the server keeps open, and has room again when one leaves', async () => {
    for (let i = 0; i < STREAMS; i += 1) expect((await listen()).status).toBe(200);
    expect(await openStreams()).toBe(STREAMS);
    const refused = await listen();
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('30');
    readers[0]?.leave();
    await expect.poll(() => openStreams()).toBe(STREAMS - 1);
    expect((await listen()).status).toBe(200);
  });

  it('opens no stream for a HEAD, nor for a run that nobody knows', async () => {
    const head = await api.call('HEAD', '/v1/runs/2026-09/events');
    expect(head.status).toBe(405);
    expect(head.headers.get('allow')).toBe('GET');
    expect((await listen(runRef('2031-01'))).status).toBe(503);
    expect(await openStreams()).toBe(0);
  });

  it('closes with the server, which does not wait for its readers', async () => {
    const own = await startOperatorApi(engine.db, { account: engine.deps.account });
    const reader = await listen(runRef(), own);
    await reader.next();
    const began = performance.now();
    await own.close();
    expect(await reader.next()).toEqual({ event: 'end', data: {} });
    expect(await reader.next()).toBeNull();
    // One that waits for its readers is cut off after 8 s.
    expect(performance.now() - began).toBeLessThan(6_000);
  });

  it('keeps a stream open where nothing changes', async () => {
    const own = await startOperatorApi(engine.db, {
      account: engine.deps.account,
      limits: { heartbeatMs: 20 },
    });
    const reader = await listen(runRef(), own);
    await expect.poll(() => reader.text()).toMatch(/\n:\n\n:\n\n/);
    await own.close();
  });
});

describe('a feed', () => {
  it('has one reader for all who listen, which stops when the last one leaves', async () => {
    const reads = { a: 0, b: 0 };
    const feeds = new Feeds<number>({
      read: async (key) => (reads[key === 'a' ? 'a' : 'b'] += 1),
      isLast: () => false,
      maxListeners: 10,
      onError: () => {},
      pauses: { shortestMs: 5 },
    });
    const seen: number[][] = [[], [], []];
    const leave = seen.map((values) =>
      feeds.listen('a', { onValue: (value) => values.push(value), onEnd: () => {} }),
    );
    await expect.poll(() => reads.a).toBeGreaterThan(5);
    for (const stop of leave) stop?.();
    const [first = []] = seen;
    expect(first.length).toBeGreaterThan(3);
    // Each value was read once, and told to all.
    expect(seen).toEqual([first, first, first]);
    expect(first).toEqual(first.map((_, i) => i + 1));
    const after = reads.a;
    feeds.listen('b', { onValue: () => {}, onEnd: () => {} });
    await expect.poll(() => reads.b).toBeGreaterThan(5);
    expect(reads.a).toBe(after);
    feeds.close();
  });

  it('reads less often while nothing changes, and goes on after a reading that failed', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    try {
      const at: number[] = [];
      const errors: unknown[] = [];
      const feeds = new Feeds<string>({
        read: async () => {
          at.push(performance.now());
          if (at.length === 2) throw new Error('the database is away');
          return 'same';
        },
        isLast: () => false,
        maxListeners: 1,
        onError: (error) => errors.push(error),
        pauses: { shortestMs: 1_000, longestMs: 3_000 },
      });
      const values: string[] = [];
      feeds.listen('a', { onValue: (value) => values.push(value), onEnd: () => {} });
      await vi.advanceTimersByTimeAsync(14_000);
      feeds.close();
      expect(values).toEqual(['same']);
      expect(errors).toHaveLength(1);
      const gaps = at.slice(1).map((time, before) => Math.round(time - (at[before] ?? 0)));
      expect(gaps).toEqual([1_000, 1_500, 2_250, 3_000, 3_000, 3_000]);
    } finally {
      vi.useRealTimers();
    }
  });
});
