import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { answering, atOnce, OTHER_REQUEST, type Scene } from './conformance-scene.ts';
import type { StoredResponse } from './store.ts';

type Check = readonly [name: string, run: (scene: Scene) => Promise<void>];

const RIVALS = 20;
const MANY = 10_000;

const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

/** Responses that a store may be tempted to make something else of. */
const RESPONSES: readonly StoredResponse[] = [
  {
    state: 'COMPLETED',
    status: 201,
    headers: [
      ['location', '/orders/1'],
      ['link', '</b>; rel="b"'],
      ['link', '</a>; rel="a"'],
      ['etag', String.raw`"\u0041\"'`],
    ],
    body: EVERY_BYTE,
  },
  { state: 'COMPLETED', status: 204, headers: [], body: Buffer.alloc(0) },
  { state: 'COMPLETED', status: 200, headers: [['content-type', 'text/plain']], body: null },
  { state: 'COMPLETED', status: 402, headers: [], body: Buffer.from('{"declined":1}') },
  { state: 'FAILED', status: 503, headers: [['retry-after', '7']], body: Buffer.from('later') },
];

/** What is stored, for how long, and who may end it. */
export const ANSWERS: readonly Check[] = [
  [
    'gives a stored response again as it was: status, headers in their order, every byte of the body',
    async (scene) => {
      for (const response of RESPONSES) {
        const id = { ...scene.id, key: randomUUID() };
        const hold = await scene.take(id);
        assert.equal(await scene.store.complete(hold, response, scene.longMs), 'stored');
        for (const answer of [await scene.try(id), await scene.look(undefined, id)]) {
          assert.ok(answer?.kind === 'stored');
          assert.deepEqual({ ...answer.response }, response);
        }
      }
    },
  ],
  [
    'says stored to the holder that says it again, and keeps what it said first',
    async (scene) => {
      const hold = await scene.take();
      assert.equal(await scene.complete(hold, 'first'), 'stored');
      assert.equal(await scene.complete(hold, 'second'), 'stored');
      await scene.assertStored('first');
    },
  ],
  [
    'never gives away a key that is answered while others claim it',
    async (scene) => {
      const hold = await scene.take();
      const [written, ...tries] = await Promise.all([
        scene.complete(hold),
        ...Array.from({ length: RIVALS }, () => scene.try({ takeover: 'rerun' })),
      ]);
      assert.equal(written, 'stored');
      assert.ok(tries.every(({ kind }) => kind === 'inFlight' || kind === 'stored'));
      await scene.assertStored('an answer');
    },
  ],
  [
    'forgets a response when its time is over: then the key is new, for any request',
    async (scene) => {
      const before = await scene.take();
      assert.equal(await scene.complete(before, 'old', scene.shortMs), 'stored');
      await scene.untilForgotten();
      assert.equal(await scene.look(OTHER_REQUEST), null);
      const tries = await atOnce(RIVALS, () => scene.try({ fingerprint: OTHER_REQUEST }));
      const taken = tries.filter((answer) => answer.kind === 'claimed');
      assert.equal(taken.length, 1);
      assert.equal(taken[0]?.takenOver, false);
      assert.equal(await scene.complete(before, 'older'), 'lost');
      assert.deepEqual(await scene.look(OTHER_REQUEST), { kind: 'inFlight' });
    },
  ],
  [
    'purges responses whose time is over, no more than asked for, and nothing else',
    async (scene) => {
      const old = ['one', 'two', 'three'].map((key) => ({ ...scene.id, key }));
      for (const id of old) await scene.complete(await scene.take(id), 'old', scene.shortMs);
      const kept = { ...scene.id, key: 'kept' };
      await scene.complete(await scene.take(kept));
      const gone = await scene.takeAndLose();
      for (const id of old) await scene.untilForgotten(id);
      const first = await scene.store.purge(2);
      assert.ok(first >= 1 && first <= 2, `purged ${first} of at most 2`);
      let purged = first;
      for (let last = 1; last > 0; purged += last) last = await scene.store.purge(MANY);
      assert.ok(purged >= old.length, `purged ${purged} of at least ${old.length}`);
      assert.equal((await scene.look(undefined, kept))?.kind, 'stored');
      assert.equal(await scene.complete(gone), 'stored');
      for (const id of old) await scene.take({ ...id, fingerprint: OTHER_REQUEST });
    },
  ],
];

/** Keys that are given back, and keys that somebody has looked at. */
export const ENDS: readonly Check[] = [
  [
    'gives a key back as if it had never come, to any request',
    async (scene) => {
      const hold = await scene.take();
      await scene.store.abandon(hold);
      await scene.store.abandon(hold);
      assert.equal(await scene.look(), null);
      const answer = await scene.try({ fingerprint: OTHER_REQUEST });
      assert.ok(answer.kind === 'claimed' && !answer.takenOver);
      assert.equal(await scene.complete(hold), 'lost');
    },
  ],
  [
    'gives nothing back to who does not hold it, or has answered',
    async (scene) => {
      await scene.store.abandon({ ...scene.id, holder: randomUUID() });
      const hold = await scene.take();
      await scene.store.abandon({ ...scene.id, holder: randomUUID() });
      assert.deepEqual(await scene.look(), { kind: 'inFlight' });
      await scene.complete(hold);
      await scene.store.abandon(hold);
      await scene.assertStored('an answer');
    },
  ],
  [
    'keeps a key that was taken over when it is given back, for the next who may take it over',
    async (scene) => {
      const late = await scene.takeAndLose();
      const hold = await scene.takeOver();
      await scene.store.abandon(late);
      assert.deepEqual(await scene.look(), { kind: 'inFlight' });
      await scene.store.abandon(hold);
      assert.deepEqual(await scene.try({ fingerprint: OTHER_REQUEST }), { kind: 'mismatch' });
      assert.deepEqual(await scene.try(), { kind: 'interrupted' });
      const next = await scene.takeOver();
      assert.ok(next.fence > hold.fence);
      assert.equal(await scene.complete(hold), 'lost');
    },
  ],
  [
    'stores what somebody says came of a key whose holder is gone, and the holder can say nothing more',
    async (scene) => {
      const late = await scene.takeAndLose();
      const resolve = () => scene.store.resolve(scene.id, answering('resolved'), scene.longMs);
      const answers = await atOnce(5, resolve);
      assert.equal(answers.filter((answer) => answer === 'resolved').length, 1);
      assert.equal(await scene.complete(late, 'late'), 'lost');
      assert.deepEqual(await scene.store.renew([late], scene.longMs), [late.holder]);
      await scene.assertStored('resolved');
    },
  ],
  [
    'frees a key whose holder is gone for any request, and the holder can say nothing more',
    async (scene) => {
      const late = await scene.takeAndLose();
      assert.equal(await scene.store.resolve(scene.id, null, scene.longMs), 'resolved');
      assert.equal(await scene.look(), null);
      assert.equal(await scene.complete(late, 'late'), 'lost');
      const answer = await scene.try({ fingerprint: OTHER_REQUEST });
      assert.ok(answer.kind === 'claimed' && !answer.takenOver);
      assert.equal(await scene.complete(late, 'late'), 'lost');
    },
  ],
  [
    'resolves nothing that is unknown, held, held again or stored',
    async (scene) => {
      const resolves = async () => {
        for (const response of [null, answering('resolved')])
          assert.equal(
            await scene.store.resolve(scene.id, response, scene.longMs),
            'notInterrupted',
          );
      };
      await resolves();
      const late = await scene.takeAndLose();
      await scene.store.renew([late], scene.longMs);
      await resolves();
      await scene.complete(late, 'mine');
      await resolves();
      await scene.assertStored('mine');
    },
  ],
];
