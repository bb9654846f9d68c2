import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Simulator } from '../../src/simulator/index.ts';
import { readPlan } from '../../src/db/refund-plans.ts';
import type { RefundDeps } from '../../src/refunds/deps.ts';
import { refundLine } from '../../src/refunds/refund-line.ts';
import { paidTwice, type PaidTwice } from '../support/refunds.ts';
import { startUnlimited } from './simulator/support.ts';

const KEYS_FORGOTTEN_MS = 25 * 3_600_000;

let simulator: Simulator;
let world: PaidTwice;
beforeAll(async () => {
  simulator = await startUnlimited();
});
afterAll(() => simulator.close());
beforeEach(async () => {
  world = await paidTwice(simulator);
});
afterEach(() => world.end());

describe('the reply is lost', () => {
  const fault = (kind: 'actThenDrop' | 'resetBefore' | 'fail500' | 'actThen500' | 'status429') =>
    simulator.setFaults({ rules: [{ id: 'r', endpoint: 'refunds.create', kind, limit: 2 }] });

  it.each(['actThenDrop', 'actThen500'] as const)(
    'O5: gives back once, under one key, when Stripe has executed it and answers with %s',
    async (kind) => {
      const planId = await world.plan();
      fault(kind);
      await world.execute(planId);
      expect(await world.states(planId)).toEqual(['refunded']);
      expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
      expect(new Set(world.posts().map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    },
  );

  it.each(['resetBefore', 'status429'] as const)(
    'stays open when Stripe has not executed it (%s), and the next order sends the same key and bytes',
    async (kind) => {
      const planId = await world.plan();
      fault(kind);
      await world.execute(planId);
      expect((await world.states(planId))[0]).toMatch(/^indeterminate/);
      simulator.setFaults(undefined);
      await world.execute(planId);
      expect(await world.states(planId)).toEqual(['refunded']);
      expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
      expect(new Set(world.posts().map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
      expect(new Set(world.posts().map(({ bodyHash }) => bodyHash)).size).toBe(1);
      const attempts = world.posts().map(({ attemptId }) => attemptId);
      const stored = await world.engine.db
        .selectFrom('refund_attempts')
        .select('attempt_id')
        .execute();
      expect(new Set(attempts)).toEqual(new Set(stored.map(({ attempt_id: id }) => id)));
    },
  );

  it('gives back after a saved 500, once Stripe has forgotten the key and a look finds nothing', async () => {
    const planId = await world.plan();
    fault('fail500');
    await world.execute(planId);
    await world.execute(planId);
    expect((await world.states(planId))[0]).toMatch(/^indeterminate/);
    simulator.setFaults(undefined);
    simulator.advanceClock(KEYS_FORGOTTEN_MS);
    await world.execute(planId);
    expect(await world.states(planId)).toEqual(['refunded']);
    expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
  });

  it('C3: a key past its time is looked up before anything is sent, and what is found is not sent again', async () => {
    const planId = await world.plan();
    await expect(world.execute(planId, world.dyingAt('answered'))).rejects.toThrow('died');
    simulator.advanceClock(KEYS_FORGOTTEN_MS);
    const before = world.posts().length;
    await world.execute(planId);
    expect(await world.states(planId)).toEqual(['refunded']);
    expect(world.posts()).toHaveLength(before);
    expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
  });

  it('L9: a look-up that fails sends nothing and decides nothing', async () => {
    const planId = await world.plan();
    await expect(world.execute(planId, world.dyingAt('marked'))).rejects.toThrow('died');
    simulator.setFaults({ rules: [{ id: 'l', endpoint: 'refunds.list', kind: 'status503' }] });
    const answer = await world.execute(planId);
    expect(answer).toMatchObject({ lines: [{ result: { state: 'unknown' } }] });
    expect(world.posts()).toHaveLength(0);
    expect(await world.states(planId)).toEqual(['sent']);
  });

  it('does not send again what was given back by hand meanwhile', async () => {
    const planId = await world.plan();
    await expect(world.execute(planId, world.dyingAt('marked'))).rejects.toThrow('died');
    await world.stripe.refunds.create({ charge: world.extra });
    const before = world.posts().length;
    await world.execute(planId);
    expect(await world.states(planId)).toEqual(['indeterminate refunded_meanwhile']);
    await sql`ALTER TABLE refund_attempts DISABLE TRIGGER append_only`.execute(world.engine.db);
    await sql`UPDATE refund_attempts SET sent_at = sent_at - interval '25 hours'`.execute(
      world.engine.db,
    );
    await world.execute(planId);
    expect(await world.states(planId)).toEqual(['failed refunded_meanwhile']);
    expect(world.posts()).toHaveLength(before);
  });

  it('ends as failed, with the code, when Stripe refuses it for good', async () => {
    const planId = await world.plan();
    const late: RefundDeps['crashPoint'] = async (point) => {
      if (point === 'marked') await world.stripe.refunds.create({ charge: world.extra });
    };
    await world.execute(planId, world.with({ crashPoint: late }));
    expect(await world.states(planId)).toEqual(['failed charge_already_refunded']);
    expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
  });

  it('stops at once when Stripe refuses the API key, and goes on with the right one', async () => {
    await world.chargeAgain();
    const planId = await world.plan();
    const refused: RefundDeps['refunds'] = {
      ...world.deps.refunds,
      async createRefund(send) {
        return {
          kind: 'refused',
          refusal: {
            status: 401,
            type: 'invalid_request_error',
            code: null,
            declineCode: null,
            adviceCode: null,
            message: null,
            shouldRetry: null,
            retryAfterMs: null,
            paymentIntent: null,
          },
          answer: {
            attemptId: send.attemptId,
            httpStatus: 401,
            error: null,
            stripeRequestId: null,
            replayed: false,
            durationMs: 1,
          },
        };
      },
    };
    const answer = await world.execute(planId, world.with({ refunds: refused }));
    expect(answer).toMatchObject({ stoppedBy: 'api_key_refused', notTried: 1 });
    expect(await world.states(planId)).toEqual(['indeterminate api_key_refused', 'planned']);
    await world.execute(planId);
    expect(await world.states(planId)).toEqual(['refunded', 'refunded']);
  });
});

describe.each(['checked', 'marked', 'answered', 'recorded'] as const)(
  'the process dies at %s',
  (point) => {
    it(`gives back once when the order is given again after dying at ${point}`, async () => {
      const planId = await world.plan();
      await expect(world.execute(planId, world.dyingAt(point))).rejects.toThrow(`died at ${point}`);
      await world.execute(planId);
      expect(await world.states(planId)).toEqual(['refunded']);
      expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
      expect(new Set(world.posts().map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
      expect(
        (await world.audit()).filter((entry) => entry.includes('refund.refunded')),
      ).toHaveLength(1);
    });
  },
);

describe('two at once', () => {
  it('find and plan one plan', async () => {
    const plans = await Promise.all([world.plan(), world.plan(), world.plan()]);
    expect(new Set(plans).size).toBe(1);
    expect((await readPlan(world.engine.db, plans[0] ?? 0))?.lines).toHaveLength(1);
  });

  it('execute one plan once: the second is told that it is busy', async () => {
    const planId = await world.plan();
    const answers = await Promise.all([world.execute(planId), world.execute(planId)]);
    expect(answers.map(({ kind }) => kind).sort()).toEqual(['busy', 'executed']);
    expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
  });

  it('give one line back once when the lock of the plan was lost', async () => {
    const planId = await world.plan();
    const [line] = (await readPlan(world.engine.db, planId))?.lines ?? [];
    if (line === undefined) throw new Error('no line');
    const order = { operator: 'bob', onKeyRefused: () => {} };
    const results = await Promise.all([1, 2, 3].map(() => refundLine(world.deps, line, order)));
    expect(results.map(({ state }) => state).sort()).toEqual(['refunded', 'taken', 'taken']);
    expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
    expect(world.posts()).toHaveLength(1);
  });

  it('give one charge back once when two plans name it', async () => {
    const first = await world.plan();
    await world.execute(first, world.dyingAt('marked')).catch(() => {});
    const second = await world.plan();
    expect(second).not.toBe(first);
    expect(await world.execute(second)).toMatchObject({
      lines: [{ result: { state: 'left', reason: 'one_refund_open_per_charge' } }],
    });
    await world.execute(first);
    await world.execute(second);
    expect(await world.states(first)).toEqual(['refunded']);
    expect(await world.states(second)).toEqual(['skipped refunded_meanwhile']);
    expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
  });
});
