import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  PostgresIdempotencyStore,
  type IdempotencyStore,
  type StoredResponse,
} from '../../src/http/idempotency/index.ts';
import type { HttpAnswer } from '../support/http-client.ts';
import { newKey } from '../support/idempotent-app.ts';
import type { StopPoint } from '../support/idempotent-server.ts';
import {
  startServers,
  type ServerProcess,
  type ServerProcesses,
} from '../support/idempotent-servers.ts';

/** Short, and long enough that a burst on a busy machine leaves time to renew it. */
const LEASE_MS = 1_500;

let processes: ServerProcesses;
let store: IdempotencyStore;
/** the one that holds a key and fails, and the two that others are sent to */
let holder: ServerProcess;
let second: ServerProcess;
let third: ServerProcess;

beforeAll(async () => {
  processes = await startServers(3, LEASE_MS);
  store = new PostgresIdempotencyStore(processes.pool);
  const [one, two, three] = processes.servers;
  if (one === undefined || two === undefined || three === undefined) throw new Error('no servers');
  [holder, second, third] = [one, two, three];
});
afterAll(() => processes.close());

const idOf = (key: string) => ({ principal: 'tenant', endpoint: '*', key });
const codeOf = (answer: HttpAnswer): unknown => {
  const body = answer.json();
  return typeof body === 'object' && body !== null && 'code' in body ? body.code : null;
};
const isInUse = (answer: HttpAnswer): boolean =>
  answer.status === 409 && codeOf(answer) === 'idempotency-key-in-use';
const isReplayed = (answer: HttpAnswer): boolean =>
  answer.headers['idempotent-replayed'] === 'true';

/** Sends as a client does that is told to come back: to the one and to the other, until somebody knows more. */
async function sendUntilKnown(path: string, key: string): Promise<HttpAnswer> {
  for (let next = second; ; next = next === second ? third : second) {
    const answer = await next.send(path, key);
    if (!isInUse(answer)) return answer;
    expect(answer.headers['retry-after']).toBe('1');
    await sleep(20);
  }
}

describe('a key that three server processes share', () => {
  const key = newKey();
  let first: HttpAnswer;

  it('runs at the first that it comes to', async () => {
    first = await holder.send('/conflict', key, { body: '{"amount":1}' });
    expect(first.status).toBe(201);
    expect(first.json()).toEqual({ pid: holder.pid, takenOver: false });
    expect(isReplayed(first)).toBe(false);
  });

  it('is answered by the others as by the first, and does not run again', async () => {
    for (const server of [second, third, holder]) {
      const again = await server.send('/conflict', key, { body: '{"amount":1}' });
      expect(again.status).toBe(201);
      expect(again.bytes).toEqual(first.bytes);
      expect(again.headers['location']).toBe(`/effects/${key}`);
      expect(isReplayed(again)).toBe(true);
    }
    expect(await processes.counts(key)).toEqual({ runs: 1, effects: 1 });
  });

  it('is refused with 422 by another process when the body is another', async () => {
    const other = await second.send('/conflict', key, { body: '{"amount":2}' });
    expect(other.status).toBe(422);
    expect(codeOf(other)).toBe('idempotency-key-reused');
    expect(await processes.counts(key)).toEqual({ runs: 1, effects: 1 });
  });

  it('is answered with 409 by another process at once while the first is under way', async () => {
    const slow = newKey();
    const under = holder.send('/conflict', slow, { stopAt: 'inHandler' });
    await holder.stopped(slow);
    const during = await second.send('/conflict', slow);
    expect(isInUse(during)).toBe(true);
    expect(during.headers['retry-after']).toBe('1');
    holder.goOn(slow);
    expect((await under).status).toBe(201);
    const after = await second.send('/conflict', slow);
    expect(after.bytes).toEqual((await under).bytes);
    expect(await processes.counts(slow)).toEqual({ runs: 1, effects: 1 });
  });

  it('runs once when it is sent 200 times at once', async () => {
    const many = newKey();
    // Of their own: 200 requests at once on a busy machine may take longer than the lease of those that die here.
    const crowd = await startServers(3, 60_000);
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, n) => {
        const server = crowd.servers[n % 3];
        if (server === undefined) throw new Error('no servers');
        return server.send('/conflict', many);
      }),
    );
    const done = answers.filter(({ status }) => status === 201);
    expect(done.filter((answer) => !isReplayed(answer))).toHaveLength(1);
    expect(new Set(done.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter((answer) => answer.status !== 201 && !isInUse(answer))).toEqual([]);
    expect(await crowd.counts(many)).toEqual({ runs: 1, effects: 1 });
    expect((await crowd.servers[2]?.send('/conflict', many))?.bytes).toEqual(done[0]?.bytes);
    await crowd.close();
  });
});

describe('a holder that is frozen longer than its lease', () => {
  const keys = { rerun: newKey(), conflict: newKey(), resolved: newKey() };
  const byHand: StoredResponse = {
    state: 'COMPLETED',
    status: 200,
    headers: [],
    body: Buffer.from('by hand'),
  };
  let answers: Readonly<Record<keyof typeof keys, Promise<HttpAnswer>>>;
  let taken: HttpAnswer;
  let interrupted: readonly unknown[];
  let resolving: string;

  beforeAll(async () => {
    const stopAt = 'inHandler';
    answers = {
      rerun: holder.send('/rerun', keys.rerun, { stopAt }),
      conflict: holder.send('/conflict', keys.conflict, { stopAt }),
      resolved: holder.send('/conflict', keys.resolved, { stopAt }),
    };
    await Promise.all(Object.values(keys).map((key) => holder.stopped(key)));
    holder.freeze();
    taken = await sendUntilKnown('/rerun', keys.rerun);
    interrupted = await Promise.all(
      [keys.conflict, keys.resolved].map(async (key) =>
        codeOf(await sendUntilKnown('/conflict', key)),
      ),
    );
    resolving = await store.resolve(idOf(keys.resolved), byHand, 60_000);
    holder.thaw();
  });

  it('M13: is told so when another took over, and its late answer is refused: its client gets the one that counts', async () => {
    expect(taken.status).toBe(201);
    expect(taken.json()).toMatchObject({ takenOver: true });
    await holder.aborted(keys.rerun);
    holder.goOn(keys.rerun);
    const late = await answers.rerun;
    expect(late.status).toBe(201);
    expect(late.bytes).toEqual(taken.bytes);
    expect(isReplayed(late)).toBe(true);
    expect((await third.send('/rerun', keys.rerun)).bytes).toEqual(taken.bytes);
    expect(await processes.counts(keys.rerun)).toEqual({ runs: 2, effects: 1 });
  });

  it('has its key back where nobody may take over, and its answer counts', async () => {
    expect(interrupted).toEqual(Array(2).fill('idempotency-key-interrupted'));
    // It renews its lease by itself.
    await expect
      .poll(async () => isInUse(await second.send('/conflict', keys.conflict)))
      .toBe(true);
    holder.goOn(keys.conflict);
    const late = await answers.conflict;
    expect(late.json()).toEqual({ pid: holder.pid, takenOver: false });
    expect(holder.hasAborted(keys.conflict)).toBe(false);
    expect((await second.send('/conflict', keys.conflict)).bytes).toEqual(late.bytes);
    expect(await processes.counts(keys.conflict)).toEqual({ runs: 1, effects: 1 });
  });

  it('is told so when somebody has resolved its key, and its client gets what was resolved', async () => {
    expect(resolving).toBe('resolved');
    await holder.aborted(keys.resolved);
    holder.goOn(keys.resolved);
    const late = await answers.resolved;
    expect([late.status, late.text, isReplayed(late)]).toEqual([200, 'by hand', true]);
  });
});

const POINTS: readonly StopPoint[] = [
  'beforeClaimCommit',
  'afterClaim',
  'inHandler',
  'afterEffect',
  'beforeAnswerCommit',
  'afterAnswerCommit',
  'inReply',
];

describe('a holder that is killed with -9', () => {
  const keys = Object.fromEntries(
    ['rerun', 'conflict'].flatMap((path) =>
      POINTS.map((point) => [`${path} ${point}`, newKey()] as const),
    ),
  );
  let answers: readonly PromiseSettledResult<HttpAnswer>[];
  const keyOf = (path: string, point: StopPoint): string => keys[`${path} ${point}`] ?? '';

  beforeAll(async () => {
    // One process that dies at every point of its life at once: the keys know nothing of each other.
    const lost = Promise.allSettled(
      Object.entries(keys).map(([name, key]) => {
        const [path = '', point] = name.split(' ');
        const stopAt = POINTS.find((one) => one === point) ?? 'inHandler';
        return holder.send(`/${path}`, key, { stopAt });
      }),
    );
    await Promise.all(Object.values(keys).map((key) => holder.stopped(key)));
    await holder.kill();
    answers = await lost;
  });

  it('answers nobody any more', () => {
    expect(answers.map(({ status }) => status)).toEqual(Array(14).fill('rejected'));
  });

  it.each([
    ['rerun', 'before its claim was committed has left nothing behind: it runs'],
    ['conflict', 'before its claim was committed has left nothing behind, so that it runs'],
  ])('on a %s route %s', async (path) => {
    const key = keyOf(path, 'beforeClaimCommit');
    const answer = await sendUntilKnown(`/${path}`, key);
    expect([answer.status, isReplayed(answer)]).toEqual([201, false]);
    expect(answer.json()).toMatchObject({ takenOver: false });
    expect(await processes.counts(key)).toEqual({ runs: 1, effects: 1 });
  });

  it.each<readonly [string, StopPoint, number]>([
    ['M12, M15e: is replaced after its lease when it had not begun', 'afterClaim', 1],
    ['is replaced after its lease when it had begun, and had no effect yet', 'inHandler', 2],
    [
      'M15f: is replaced after its lease between its effect and its answer, and the effect is there once',
      'afterEffect',
      2,
    ],
    ['is replaced after its lease when its answer was not committed', 'beforeAnswerCommit', 2],
  ])('%s', async (_what, point, runs) => {
    const key = keyOf('rerun', point);
    const answer = await sendUntilKnown('/rerun', key);
    expect([answer.status, isReplayed(answer)]).toEqual([201, false]);
    expect(answer.json()).toMatchObject({ takenOver: true });
    expect(await processes.counts(key)).toEqual({ runs, effects: 1 });
    expect((await third.send('/rerun', key)).bytes).toEqual(answer.bytes);
    expect(await processes.counts(key)).toEqual({ runs, effects: 1 });
  });

  it.each<readonly [string, StopPoint, { readonly runs: number; readonly effects: number }]>([
    [
      'answers 409 where it may not run again, although it had not begun',
      'afterClaim',
      { runs: 0, effects: 0 },
    ],
    [
      'answers 409 where it may not run again, although it had no effect',
      'inHandler',
      { runs: 1, effects: 0 },
    ],
    [
      'M17: answers 409 where it may not run again, and had its effect',
      'afterEffect',
      { runs: 1, effects: 1 },
    ],
    [
      'answers 409 where it may not run again, and its answer was not committed',
      'beforeAnswerCommit',
      { runs: 1, effects: 1 },
    ],
  ])('%s', async (_what, point, counts) => {
    const key = keyOf('conflict', point);
    const answer = await sendUntilKnown('/conflict', key);
    expect([answer.status, codeOf(answer)]).toEqual([409, 'idempotency-key-interrupted']);
    expect((await third.send('/conflict', key)).status).toBe(409);
    expect((await third.send('/conflict', key, { body: '[]' })).status).toBe(422);
    expect(await processes.counts(key)).toEqual(counts);
  });

  it('M17: is resolved by who has looked: it runs, or is answered with what it came to', async () => {
    const [nothing, something] = [keyOf('conflict', 'inHandler'), keyOf('conflict', 'afterEffect')];
    const answer: StoredResponse = {
      state: 'COMPLETED',
      status: 201,
      headers: [['location', '/effects/found']],
      body: Buffer.from('found'),
    };
    expect(await store.resolve(idOf(nothing), null, 60_000)).toBe('resolved');
    expect(await store.resolve(idOf(something), answer, 60_000)).toBe('resolved');
    const ran = await second.send('/conflict', nothing);
    expect([ran.status, isReplayed(ran)]).toEqual([201, false]);
    expect(await processes.counts(nothing)).toEqual({ runs: 2, effects: 1 });
    const found = await second.send('/conflict', something);
    expect([found.status, found.text, isReplayed(found)]).toEqual([201, 'found', true]);
    expect(found.headers['location']).toBe('/effects/found');
    expect(await processes.counts(something)).toEqual({ runs: 1, effects: 1 });
  });

  it.each<readonly [string, string, StopPoint]>([
    ['rerun', 'before it sent its answer', 'afterAnswerCommit'],
    ['conflict', 'before it sent its answer', 'afterAnswerCommit'],
    ['rerun', 'in the middle of its answer', 'inReply'],
    ['conflict', 'in the middle of its answer', 'inReply'],
  ])(
    'on a %s route %s has answered: the others give the whole answer',
    async (path, _what, point) => {
      const key = keyOf(path, point);
      const answer = await second.send(`/${path}`, key);
      expect([answer.status, isReplayed(answer)]).toEqual([201, true]);
      expect(answer.json()).toEqual({ pid: holder.pid, takenOver: false });
      expect(await processes.counts(key)).toEqual({ runs: 1, effects: 1 });
    },
  );
});
