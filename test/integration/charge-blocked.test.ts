import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { acceptRerun } from '../../src/db/reruns.ts';
import { freezeGeneration } from '../../src/activities/frozen.ts';
import { record } from '../../src/activities/record.ts';
import { logOrder } from '../../src/activities/run.ts';
import { planOpened } from '../../src/activities/vault-run.ts';
import { listOpenSlots } from '../../src/db/open-slots.ts';
import { moveRun } from '../../src/db/runs.ts';
import type { PaymentGateway, SendReply } from '../../src/payments/gateway.ts';
import {
  ageSends,
  attend,
  chargesOf,
  customersOf,
  driveCharge,
  gatewayWith,
  postsOf,
  readSlot,
  runRef,
  setFaults,
  startEngine,
  type Engine,
} from '../support/engine.ts';

const ids = Array.from({ length: 10 }, (_, i) => `b${i}`);
const order = { action: 'run.resumed', operator: 'olga', reason: 'the cap was raised' };
let engine: Engine;
const { claimed } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterAll(() => engine.close());

/** Answers as the vault does, which forwards nothing: its statuses in turn, then Stripe's own answers. */
function vault(...statuses: (402 | 503)[]) {
  const left = [...statuses];
  const refuse = (attemptId: string): SendReply | null => {
    const status = left.shift();
    if (status === undefined) return null;
    const answer = {
      attemptId,
      httpStatus: status,
      error: null,
      stripeRequestId: null,
      replayed: false,
      durationMs: 1,
    };
    const refusal = {
      status,
      type: 'vault_error',
      code: status === 402 ? 'spend_cap_exceeded' : 'vault_unavailable',
      declineCode: null,
      adviceCode: null,
      message: null,
      retryAfterMs: null,
      shouldRetry: status === 503,
      paymentIntent: null,
    };
    return { kind: 'refused', answer, refusal };
  };
  const { gateway } = engine.deps;
  const calls: Partial<PaymentGateway> = {
    createPaymentIntent: async (send) =>
      refuse(send.attemptId) ?? gateway.createPaymentIntent(send),
    confirmPaymentIntent: async (id, send) =>
      refuse(send.attemptId) ?? gateway.confirmPaymentIntent(id, send),
  };
  return engine.with({ gateway: gatewayWith(gateway, calls) });
}

describe('a charge that the spend cap refuses', () => {
  it('is blocked, and billed once with its old keys when the run is resumed, also days later', async () => {
    const slot = await claimed();
    expect(await attend(vault(402), slot)).toBe('blocked');
    const before = await readSlot(engine.db, slot);
    expect(before).toMatchObject({ reason: 'spend_cap_exceeded', advice: 'raise_cap' });
    await ageSends(engine.db, slot, '50 hours');
    expect(await logOrder(engine.deps, runRef(), order)).toEqual({ unblocked: 1 });
    expect(await logOrder(engine.deps, runRef(), order)).toEqual({ unblocked: 0 });
    expect(await attend(engine.deps, slot)).toBe('charged');
    const after = await readSlot(engine.db, slot);
    expect(after).toMatchObject({ generation: 1, idempotency_key: before.idempotency_key });
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('is billed with its old keys when its run is stopped meanwhile and started again', async () => {
    const slot = await claimed();
    expect(await attend(vault(402), slot)).toBe('blocked');
    await moveRun(engine.db, runRef(), { state: 'stopped', actor: 'test' });
    expect(await planOpened(engine.deps, runRef(), 'olga')).toMatchObject({ state: 'stopped' });
    expect((await readSlot(engine.db, slot)).state).toBe('sent');
    expect(await listOpenSlots(engine.db, runRef(), { after: '', limit: 100 })).toContain(
      slot.customerId,
    );
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    await moveRun(engine.db, runRef(), { state: 'charging', actor: 'test' });
  });

  it('is blocked again, not in doubt, when it is refused again', async () => {
    const slot = await claimed();
    expect(await attend(vault(503, 402), slot)).toBe('blocked');
    await logOrder(engine.deps, runRef(), order);
    expect(await attend(vault(402), slot)).toBe('blocked');
    await acceptRerun(
      engine.db,
      { ...slot, requestId: randomUUID(), operator: 'olga', reason: 'raised' },
      (item) => freezeGeneration(engine.deps, slot, item),
    );
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('stays in doubt when an earlier send of the key may have arrived, and its keys still age', async () => {
    const slot = await claimed();
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.create',
      kind: 'actThenDrop',
      rate: 1,
    });
    await driveCharge(engine.deps, slot, { attempts: 1 });
    engine.simulator.setFaults(undefined);
    const { result } = await driveCharge(vault(402), slot, { attempts: 1 });
    expect(result?.result).toMatchObject({
      outcome: 'indeterminate',
      reason: 'spend_cap_exceeded',
    });
    if (result !== null) await record(engine.deps, slot, result);
    const sends = postsOf(engine.simulator, 'create').length;
    await ageSends(engine.db, slot, '25 hours');
    expect(await attend(engine.deps, slot)).toBe('charged');
    // Found by its metadata: the key is too old to be sent again.
    expect(postsOf(engine.simulator, 'create')).toHaveLength(sends);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('is blocked at its confirm too, and confirms the same PaymentIntent afterwards', async () => {
    const slot = await claimed();
    const { gateway } = engine.deps;
    const confirmRefused = gatewayWith(gateway, {
      confirmPaymentIntent: (id, send) => vault(402).gateway.confirmPaymentIntent(id, send),
    });
    expect(await attend(engine.with({ gateway: confirmRefused }), slot)).toBe('blocked');
    const { payment_intent_id: intent } = await readSlot(engine.db, slot);
    await logOrder(engine.deps, runRef(), order);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(await readSlot(engine.db, slot)).toMatchObject({ payment_intent_id: intent });
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });
});
