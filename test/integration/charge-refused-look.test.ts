import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SendReply } from '../../src/payments/gateway.ts';
import {
  attend,
  chargesOf,
  customersOf,
  gatewayWith,
  readSlot,
  startEngine,
  type Engine,
} from '../support/engine.ts';

let engine: Engine;
const ids = ['cus_r1'];
const customers = customersOf(() => engine, ids);
beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterAll(() => engine.close());

describe('a confirm refused with 403 while an earlier send of it is on its way', () => {
  it('stays unknown until Stripe shows the charge', async () => {
    const slot = customers.fresh();
    const { gateway } = engine.deps;
    const onItsWay: (() => Promise<SendReply>)[] = [];
    let lookUps = 0;
    const revoked = gatewayWith(gateway, {
      async confirmPaymentIntent(id, send): Promise<SendReply> {
        const answer = {
          attemptId: send.attemptId,
          httpStatus: null,
          error: 'ETIMEDOUT',
          stripeRequestId: null,
          replayed: false,
          durationMs: 1,
        };
        if (onItsWay.length === 0) {
          onItsWay.push(() => gateway.confirmPaymentIntent(id, send));
          return { kind: 'lost', reason: 'ETIMEDOUT', answer };
        }
        return {
          kind: 'refused',
          refusal: {
            status: 403,
            type: 'invalid_request_error',
            code: null,
            declineCode: null,
            adviceCode: null,
            message: 'the key has lost the right to write',
            shouldRetry: null,
            retryAfterMs: null,
            paymentIntent: null,
          },
          answer: { ...answer, httpStatus: 403, error: null },
        };
      },
      async retrievePaymentIntent(id) {
        lookUps += 1;
        return gateway.retrievePaymentIntent(id);
      },
    });
    expect(await attend(engine.with({ gateway: revoked }), slot)).toBe('indeterminate');
    expect(lookUps).toBeGreaterThan(0);
    for (const arrive of onItsWay) await arrive();
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect((await readSlot(engine.db, slot)).generation).toBe(1);
  });
});
