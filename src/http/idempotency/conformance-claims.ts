import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { atOnce, OTHER_REQUEST, REQUEST, type Scene } from './conformance-scene.ts';
import type { RecordId } from './store.ts';

type Check = readonly [name: string, run: (scene: Scene) => Promise<void>];

const RIVALS = 20;

/** Who gets a key, and what the others are told. */
export const CLAIMS: readonly Check[] = [
  [
    'gives a key to the first who claims it, and says in flight to everybody else',
    async (scene) => {
      assert.equal(await scene.look(), null);
      const answer = await scene.try();
      assert.ok(answer.kind === 'claimed' && !answer.takenOver);
      assert.deepEqual(await scene.try(), { kind: 'inFlight' });
      assert.deepEqual(await scene.try({ takeover: 'rerun' }), { kind: 'inFlight' });
      assert.deepEqual(await scene.look(), { kind: 'inFlight' });
    },
  ],
  [
    'gives a key to one of many who claim it at once',
    async (scene) => {
      const kinds = (await atOnce(RIVALS, () => scene.try())).map(({ kind }) => kind).sort();
      assert.deepEqual(kinds, ['claimed', ...Array<string>(RIVALS - 1).fill('inFlight')]);
    },
  ],
  [
    'gives it to the same try again, with the same fence',
    async (scene) => {
      const holder = randomUUID();
      const answers = [await scene.try({ holder }), await scene.try({ holder })];
      assert.deepEqual(answers[1], answers[0]);
      assert.equal((await scene.try()).kind, 'inFlight');
    },
  ],
  [
    'tells principals, endpoints and keys apart, wherever one ends and the next begins',
    async (scene) => {
      const { principal, key } = scene.id;
      const others: readonly RecordId[] = [
        scene.id,
        { principal: `${principal}2`, endpoint: '*', key },
        { principal, endpoint: 'POST /', key },
        { principal, endpoint: '*', key: `${key}2` },
        { principal: `${principal}*`, endpoint: '*', key },
        { principal, endpoint: '**', key },
        { principal, endpoint: '*', key: `*${key}` },
        { principal, endpoint: '*', key: key.toUpperCase() },
        { principal, endpoint: '*', key: ` ${key}` },
      ];
      for (const id of others) await scene.take(id);
      for (const id of others) assert.equal((await scene.try(id)).kind, 'inFlight');
    },
  ],
  [
    'refuses another request under the key while it is in flight, and takes nothing',
    async (scene) => {
      const hold = await scene.take();
      assert.deepEqual(await scene.try({ fingerprint: OTHER_REQUEST }), { kind: 'mismatch' });
      assert.deepEqual(await scene.look(OTHER_REQUEST), { kind: 'mismatch' });
      assert.equal(await scene.complete(hold), 'stored');
      assert.deepEqual(await scene.try({ fingerprint: OTHER_REQUEST }), { kind: 'mismatch' });
      assert.deepEqual(await scene.look(OTHER_REQUEST), { kind: 'mismatch' });
    },
  ],
  [
    'refuses another request when the holder is gone, although it may run again',
    async (scene) => {
      const hold = await scene.takeAndLose();
      const other = { fingerprint: OTHER_REQUEST, takeover: 'rerun' } as const;
      assert.deepEqual(await scene.try(other), { kind: 'mismatch' });
      assert.equal(await scene.complete(hold), 'stored');
    },
  ],
  [
    'takes nothing by a look',
    async (scene) => {
      await scene.look();
      const hold = await scene.takeAndLose();
      await scene.look();
      assert.equal(await scene.complete(hold), 'stored');
    },
  ],
  [
    'leaves a key whose handler may not run again to whoever looks, and lists it',
    async (scene) => {
      const hold = await scene.takeAndLose();
      assert.deepEqual(await scene.try(), { kind: 'interrupted' });
      const listed = await scene.store.interrupted(1_000_000);
      const mine = listed.find(({ key }) => key === scene.id.key);
      assert.ok(mine !== undefined && mine.since instanceof Date);
      const { principal, endpoint } = mine;
      assert.deepEqual({ principal, endpoint, key: mine.key }, scene.id);
      assert.ok((await scene.store.interrupted(1)).length <= 1);
      assert.equal(await scene.complete(hold), 'stored');
      const after = await scene.store.interrupted(1_000_000);
      assert.ok(!after.some(({ key }) => key === scene.id.key));
    },
  ],
  [
    'lists what waits the longest first, and nothing whose holder is there',
    async (scene) => {
      const ids = ['first', 'second', 'third'].map((key) => ({ ...scene.id, key }));
      for (const id of ids) await scene.takeAndLose(id);
      await scene.take();
      const listed = await scene.store.interrupted(1_000_000);
      const mine = listed.filter(({ principal }) => principal === scene.id.principal);
      assert.deepEqual(
        mine.map(({ key }) => key),
        ['first', 'second', 'third'],
      );
    },
  ],
];

/** What happens to a key whose holder is gone, or is merely late. */
export const TAKEOVERS: readonly Check[] = [
  [
    'lets one of many take over a key whose holder is gone, with a greater fence',
    async (scene) => {
      const late = await scene.takeAndLose();
      const answers = await atOnce(RIVALS, () => scene.try({ takeover: 'rerun' }));
      const taken = answers.filter((answer) => answer.kind === 'claimed');
      assert.equal(taken.length, 1);
      assert.ok(taken[0]?.takenOver === true && taken[0].fence > late.fence);
      assert.ok(answers.every(({ kind }) => kind === 'claimed' || kind === 'inFlight'));
    },
  ],
  [
    'gives a takeover to the same try again, as a takeover',
    async (scene) => {
      await scene.takeAndLose();
      const again = { holder: randomUUID(), takeover: 'rerun' } as const;
      const answers = [await scene.try(again), await scene.try(again)];
      assert.deepEqual(answers[1], answers[0]);
    },
  ],
  [
    'refuses what a holder writes whose key was taken over',
    async (scene) => {
      const late = await scene.takeAndLose();
      const hold = await scene.takeOver();
      assert.equal(await scene.complete(late, 'late'), 'lost');
      assert.deepEqual(await scene.look(), { kind: 'inFlight' });
      assert.equal(await scene.complete(hold, 'in time'), 'stored');
      assert.equal(await scene.complete(late, 'late'), 'lost');
      await scene.assertStored('in time');
    },
  ],
  [
    'refuses what is written with the fence of one holder and the name of another',
    async (scene) => {
      const hold = await scene.take();
      assert.equal(await scene.complete({ ...hold, holder: randomUUID() }), 'lost');
      assert.equal(await scene.complete({ ...hold, fence: hold.fence + 1 }), 'lost');
      assert.equal(await scene.complete({ ...hold, key: randomUUID() }), 'lost');
      assert.deepEqual(await scene.look(), { kind: 'inFlight' });
    },
  ],
  [
    'takes what a merely late holder writes when nobody took over',
    async (scene) => {
      const late = await scene.takeAndLose();
      assert.equal(await scene.complete(late, 'late'), 'stored');
      await scene.assertStored('late');
    },
  ],
  [
    'lets either the late answer or the takeover win when they meet, never both',
    async (scene) => {
      for (let round = 0; round < 10; round += 1) {
        const id = { ...scene.id, key: randomUUID() };
        const late = await scene.takeAndLose(id);
        const [written, ...tries] = await Promise.all([
          scene.complete(late),
          ...Array.from({ length: 3 }, () => scene.try({ ...id, takeover: 'rerun' })),
        ]);
        const taken = tries.filter(({ kind }) => kind === 'claimed').length;
        assert.equal(taken, written === 'stored' ? 0 : 1);
      }
    },
  ],
  [
    'keeps a key whose lease is renewed, and tells which ones are lost',
    async (scene) => {
      const lost = await scene.takeAndLose({ key: 'lost' });
      await scene.takeOver({ key: 'lost' });
      const kept = await scene.take({ leaseMs: scene.shortMs });
      assert.deepEqual(await scene.store.renew([kept, lost], scene.longMs), [lost.holder]);
      // A lease that began later, and was not renewed, is over.
      await scene.takeAndLose({ key: 'later' });
      assert.deepEqual(await scene.try({ takeover: 'rerun' }), { kind: 'inFlight' });
      assert.deepEqual(await scene.store.renew([], scene.longMs), []);
    },
  ],
  [
    'gives a late holder its key back when it renews before anybody took over',
    async (scene) => {
      const late = await scene.takeAndLose();
      assert.deepEqual(await scene.store.renew([late], scene.longMs), []);
      assert.deepEqual(await scene.try({ fingerprint: REQUEST, takeover: 'rerun' }), {
        kind: 'inFlight',
      });
    },
  ],
];
