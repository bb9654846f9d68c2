import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decideRerun } from '../../src/activities/run.ts';
import {
  attend,
  chargesOf,
  driveCharge,
  gatewayWith,
  setFaults,
  slotRef,
  startEngine,
  type Engine,
} from '../support/engine.ts';

let engine: Engine;
const slot = slotRef('e1');
beforeAll(async () => {
  engine = await startEngine();
  await engine.plan([{ id: slot.customerId, paymentMethod: 'pm_card_visa_chargeDeclined' }]);
});
afterAll(() => engine.close());

describe('a rerun after a decline that named no charge', () => {
  it('does not read the old decline as its own when its reply is lost', async () => {
    const { gateway } = engine.deps;
    const brief = gatewayWith(gateway, {
      async confirmPaymentIntent(id, send) {
        const reply = await gateway.confirmPaymentIntent(id, send);
        if (reply.kind !== 'refused') return reply;
        return { ...reply, refusal: { ...reply.refusal, paymentIntent: null } };
      },
    });
    expect(await attend(engine.with({ gateway: brief }), slot)).toBe('declined');
    await engine.db
      .updateTable('customers')
      .set({ payment_method_id: 'pm_card_visa' })
      .where('customer_id', '=', slot.customerId)
      .execute();
    const order = { ...slot, requestId: 'r1', operator: 'olga', reason: 'new card' };
    expect(await decideRerun(engine.deps, order)).toBe('accepted');
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'resetBefore',
      nth: [1, 2],
    });
    const driven = await driveCharge(engine.deps, slot, { generation: 2, attempts: 1 });
    expect(driven.failures).toEqual(['ChargeIndeterminate']);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });
});
