import { describe, expect, it } from 'vitest';
import type { ActivityDeps } from '../../src/activities/deps.ts';
import { Drain } from '../../src/activities/drain.ts';
import type { BillingActivities, ChargeActivities } from '../../src/activities/index.ts';
import { slotRef } from '../support/names.ts';

// oxlint-disable typescript/no-unsafe-type-assertion -- worlds of a few calls stand for the whole one

/** Only what the drain touches; the rest of the world is not looked at. */
function world() {
  const sent: string[] = [];
  let resend: (() => Promise<void>) | null = null;
  const deps = {
    pace: async () => {},
    gateway: {
      createPaymentIntent: async (send: { onResend: (resend: object) => Promise<void> }) => {
        sent.push('create');
        resend = () => send.onResend({});
      },
      confirmPaymentIntent: async () => sent.push('confirm'),
      retrievePaymentIntent: async () => sent.push('retrieve'),
    },
  };
  return { deps: deps as unknown as ActivityDeps, sent, resend: () => resend?.() };
}

const STOPPING = { type: 'WorkerStopping', nonRetryable: false };
const send = { onResend: async () => {} };
const asSend = send as unknown as Parameters<ActivityDeps['gateway']['createPaymentIntent']>[0];

describe('a worker that is asked to stop', () => {
  it('begins no charge any more, and hands it over to be tried again at once', async () => {
    const drain = new Drain({ graceMs: 60_000, answerMs: 1_000 });
    const deps = drain.guard(world().deps);
    await deps.pace();
    drain.begin();
    await expect(deps.pace()).rejects.toMatchObject({ ...STOPPING, nextRetryDelay: 100 });
  });

  it('lets a charge under way send on while the answer is sure to come within the grace', async () => {
    const { deps, sent } = world();
    const drain = new Drain({ graceMs: 60_000, answerMs: 1_000 });
    const { gateway } = drain.guard(deps);
    drain.begin();
    await gateway.createPaymentIntent(asSend);
    await gateway.confirmPaymentIntent('pi_1', asSend);
    expect(sent).toEqual(['create', 'confirm']);
  });

  it('sends, looks up and sends again nothing whose answer could come after the grace', async () => {
    const { deps, sent, resend } = world();
    const drain = new Drain({ graceMs: 1_000, answerMs: 1_001 });
    const { gateway } = drain.guard(deps);
    await gateway.createPaymentIntent(asSend);
    drain.begin();
    await expect(gateway.createPaymentIntent(asSend)).rejects.toMatchObject(STOPPING);
    await expect(gateway.confirmPaymentIntent('pi_1', asSend)).rejects.toMatchObject(STOPPING);
    await expect(gateway.retrievePaymentIntent('pi_1')).rejects.toMatchObject(STOPPING);
    await expect(resend()).rejects.toMatchObject(STOPPING);
    expect(sent).toEqual(['create']);
  });

  it('waits for the record of what it charged meanwhile, and not for ever', async () => {
    const drain = new Drain({ graceMs: 1_000, answerMs: 100 });
    const slot = slotRef('c1');
    const order = { ...slot, generation: 1 };
    const charge = drain.watchCharges({ charge: async () => {} } as unknown as ChargeActivities);
    const bill = drain.watchRecords({ record: async () => {} } as unknown as BillingActivities);
    await charge.charge(order);
    const idle = performance.now();
    await drain.recorded(5_000);
    expect(performance.now() - idle).toBeLessThan(1_000);
    drain.begin();
    const charged = await charge.charge(order);
    const before = performance.now();
    await drain.recorded(60);
    expect(performance.now() - before).toBeGreaterThanOrEqual(55);
    const waiting = drain.recorded(5_000);
    await bill.record(slot, charged);
    await waiting;
    expect(performance.now() - before).toBeLessThan(4_000);
  });
});
