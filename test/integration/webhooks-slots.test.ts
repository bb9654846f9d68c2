import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { decideRerun } from '../../src/activities/run.ts';
import { storeWebhookEvent } from '../../src/db/webhook-events.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { processDueEvents } from '../../src/http/webhooks/process.ts';
import {
  attend,
  chargesOf,
  migratedDatabase,
  readSlot,
  slotRef,
  startEngine,
  TEST_KEY,
} from '../support/engine.ts';
import { QUICK, startWebhookBench, type WebhookBench } from '../support/webhook-bench.ts';
import { eventOf, keepingLog, post, webhookApp, WEBHOOK_SECRET } from '../support/webhooks.ts';

const IDS = Array.from({ length: 8 }, (_, i) => `v${i}`);
const NEVER_DUE = 'never-due';
const OTHERS = [
  ...['x1', 'x2', 'x3', 'x4'].map((id) => ({ id, paymentMethod: 'pm_card_visa_chargeDeclined' })),
  { id: NEVER_DUE, amountMinor: 0 },
];
let bench: WebhookBench;
beforeAll(async () => {
  bench = await startWebhookBench(IDS, OTHERS);
});
beforeEach(() => bench.begin());
afterEach(() => bench.end());
afterAll(() => bench.close());

describe('an event about a slot that is over', () => {
  it('H8: leaves a charged slot alone when the failure of an earlier generation comes late', async () => {
    const slot = slotRef('x1');
    expect(await attend(bench.engine.deps, slot)).toBe('declined');
    await newCard(slot);
    const order = { ...slot, requestId: 'late-failure', operator: 'olga', reason: 'new card' };
    expect(await decideRerun(bench.engine.deps, order)).toBe('accepted');
    expect(await attend(bench.engine.deps, slot)).toBe('charged');
    const before = await readSlot(bench.engine.db, slot);
    const held = await bench.heldEvents(slot);
    for (const type of [
      'payment_intent.succeeded',
      'payment_intent.payment_failed',
      'charge.failed',
    ]) {
      expect(await bench.engine.simulator.deliver({ ids: [held.get(type) ?? ''] })).toHaveLength(1);
      await bench.settle();
    }
    await post(
      bench.app,
      eventOf({ type: 'payment_intent.payment_failed', intent: 'pi_earlier', slot }),
    );
    await bench.settle();
    expect(await readSlot(bench.engine.db, slot)).toEqual(before);
    expect((await bench.eventsOf(slot)).map((event) => event.result)).toEqual([
      'already_known',
      'already_known',
      'already_known',
      'other_intent',
    ]);
    expect(bench.looked()).toEqual([]);
  });

  it('has a declined slot written as charged when Stripe shows that somebody paid it after all', async () => {
    const slot = slotRef('x2');
    expect(await attend(bench.engine.deps, slot)).toBe('declined');
    const { payment_intent_id: intent } = await readSlot(bench.engine.db, slot);
    const paid = await fetch(`${bench.engine.simulator.url}/v1/payment_intents/${intent}/confirm`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${TEST_KEY}`, 'Idempotency-Key': 'by-hand' },
      body: new URLSearchParams({ payment_method: 'pm_card_visa' }),
    });
    expect(paid.status).toBe(200);
    await bench.engine.simulator.deliver({ types: ['payment_intent.succeeded'] });
    await bench.settle();
    await bench.expectChargedOnce(slot);
  });

  it('is kept until the success of a declined slot is written, when the look for it fails', async () => {
    const slot = slotRef('x4');
    expect(await attend(bench.engine.deps, slot)).toBe('declined');
    const { payment_intent_id: intent } = await readSlot(bench.engine.db, slot);
    await post(bench.app, eventOf({ id: 'evt_kept', intent: intent ?? '', slot }));
    // Stripe is away: the customer's workflow is started, and ends without an answer.
    await bench.pass(async () => 'started');
    expect(await bench.resultOf('evt_kept')).toBeNull();
    const paid = await fetch(`${bench.engine.simulator.url}/v1/payment_intents/${intent}/confirm`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${TEST_KEY}`, 'Idempotency-Key': 'by-hand-x4' },
      body: new URLSearchParams({ payment_method: 'pm_card_visa' }),
    });
    expect(paid.status).toBe(200);
    await bench.settle();
    await bench.expectChargedOnce(slot);
    expect(await bench.resultOf('evt_kept')).toBe('already_known');
  });

  it('has a declined slot stay declined when a forged success is not what Stripe shows', async () => {
    const slot = slotRef('x3');
    expect(await attend(bench.engine.deps, slot)).toBe('declined');
    const { payment_intent_id: intent } = await readSlot(bench.engine.db, slot);
    await post(bench.app, eventOf({ id: 'evt_forged', intent: intent ?? '', slot }));
    await bench.settle();
    expect(await readSlot(bench.engine.db, slot)).toMatchObject({ state: 'declined' });
    expect(new Set(bench.looked())).toEqual(new Set(['x3']));
    expect(await bench.resultOf('evt_forged')).toBe('looked');
  });

  it("reports a success of another PaymentIntent with our metadata, and leaves the slot's own", async () => {
    const slot = await bench.claimed();
    expect(await attend(bench.engine.deps, slot)).toBe('charged');
    await post(bench.app, eventOf({ intent: 'pi_home_grown', slot }));
    await bench.settle();
    await bench.expectChargedOnce(slot);
    expect((await bench.eventsOf(slot)).at(-1)).toMatchObject({ result: 'other_success' });
    expect(bench.lines().find((line) => line.level === 'error')?.fields).toMatchObject({ slot });
  });

  it('reports a success for a customer to whom nothing was ever sent', async () => {
    const slot = slotRef(NEVER_DUE);
    expect(await attend(bench.engine.deps, slot)).toBe('skipped');
    await post(bench.app, eventOf({ intent: 'pi_nobodys', slot }));
    await bench.settle();
    expect(await bench.eventsOf(slot)).toMatchObject([{ result: 'other_success' }]);
    expect(await readSlot(bench.engine.db, slot)).toMatchObject({ state: 'skipped' });
  });

  it('notes a refund of ours, by its PaymentIntent alone, and leaves the slot charged', async () => {
    const slot = await bench.claimed();
    await attend(bench.engine.deps, slot);
    const { payment_intent_id: intent } = await readSlot(bench.engine.db, slot);
    await post(
      bench.app,
      eventOf({ id: 'evt_refund', type: 'charge.refunded', intent: intent ?? '' }),
    );
    await bench.settle();
    await bench.expectChargedOnce(slot);
    expect(await bench.resultOf('evt_refund')).toBe('noted');
  });
});

describe('an event without a slot', () => {
  it('H2: is parked when it comes before our commit, and applied once when the slot is there', async () => {
    // Another copy of the database has charged: same keys, same PaymentIntent. Ours knows nothing yet.
    const databaseUrl = await migratedDatabase();
    const { simulator } = bench.engine;
    const behind = await startEngine({ adopt: { databaseUrl, simulator } });
    const slot = await bench.chargedUnheard();
    const customer = [{ id: slot.customerId }];
    const held = await bench.heldEvents(slot);
    const { log } = keepingLog();
    const inbox = webhookApp({ db: behind.db, log });
    simulator.setWebhook({
      url: `${await inbox.listen({ host: '127.0.0.1', port: 0 })}/webhooks/stripe`,
      secret: WEBHOOK_SECRET,
      mode: 'hold',
    });
    await simulator.deliver({ ids: [held.get('payment_intent.succeeded') ?? ''] });
    const states = async () =>
      (await behind.db.selectFrom('webhook_events').selectAll().execute()).map(
        (event) => event.result ?? event.state,
      );
    const pass = () => processDueEvents({ db: behind.db, look: bench.realLook, log }, QUICK);
    await pass();
    expect(await states()).toEqual(['parked']);
    await behind.plan(customer);
    await claimSlot(behind.deps, slot);
    expect(await attend(behind.deps, slot, 1)).not.toBe('charged');
    expect(await attend(behind.deps, slot)).toBe('charged');
    await expect
      .poll(async () => {
        await pass();
        return states();
      })
      .toEqual(['already_known']);
    expect(chargesOf(simulator, slot.customerId)).toBe(1);
    await inbox.close();
    await behind.close();
  });

  it('is given up with a warning when its slot does not come', async () => {
    await post(bench.app, eventOf({ id: 'evt_orphan', slot: slotRef('nobody') }));
    await bench.settle();
    expect(await bench.resultOf('evt_orphan')).toBeNull();
    await bench.settle(bench.realLook, { ...QUICK, giveUpAfterMs: 0 });
    expect(await bench.resultOf('evt_orphan')).toBe('unmatched');
    expect(bench.lines().filter((line) => line.level === 'warn')).toHaveLength(1);
  });

  it('is ignored when it is not ours', async () => {
    await post(bench.app, eventOf({ id: 'evt_foreign' }));
    await bench.settle();
    expect(await bench.resultOf('evt_foreign')).toBe('ignored');
    expect(bench.looked()).toEqual([]);
  });

  it('finds its slot by our metadata when our row does not know its PaymentIntent yet', async () => {
    const slot = await bench.claimed();
    await storeWebhookEvent(bench.engine.db, {
      eventId: 'evt_by_metadata',
      type: 'payment_intent.succeeded',
      apiVersion: null,
      account: null,
      livemode: false,
      createdSeconds: 1,
      objectId: 'pi_unheard',
      paymentIntentId: 'pi_unheard',
      chargeId: null,
      idempotencyKey: null,
      slot,
    });
    await bench.settle();
    expect(bench.looked()).toEqual([slot.customerId]);
    expect(await bench.resultOf('evt_by_metadata')).toBe('looked');
  });
});

async function newCard(slot: SlotRef): Promise<void> {
  await bench.engine.db
    .updateTable('customers')
    .set({ payment_method_id: 'pm_card_visa' })
    .where('customer_id', '=', slot.customerId)
    .execute();
}
