import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { claimWebhookEvents } from '../../src/db/webhook-events.ts';
import { startWebhookProcessor } from '../../src/http/webhooks/process.ts';
import { attend, readSlot, setFaults } from '../support/engine.ts';
import { QUICK, startWebhookBench, type WebhookBench } from '../support/webhook-bench.ts';
import { eventOf, post, WEBHOOK_SECRET } from '../support/webhooks.ts';

const IDS = Array.from({ length: 20 }, (_, i) => `w${String(i).padStart(2, '0')}`);
let bench: WebhookBench;
beforeAll(async () => {
  bench = await startWebhookBench(IDS, []);
});
beforeEach(() => bench.begin());
afterEach(() => bench.end());
afterAll(() => bench.close());

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((item, at) =>
    permutations(items.toSpliced(at, 1)).map((rest) => [item, ...rest]),
  );
}

describe('an event about an open slot', () => {
  it('tells of a charge that was answered 500 and succeeded later, which then is written down', async () => {
    const slot = await bench.claimed();
    setFaults(bench.engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'lateSuccess500',
      delayMs: 60_000,
    });
    expect(await attend(bench.engine.deps, slot, 1)).toBe('indeterminate');
    bench.engine.simulator.advanceClock(60_000);
    await bench.engine.simulator.deliver({ types: ['payment_intent.succeeded'] });
    await bench.settle();
    await bench.expectChargedOnce(slot);
    expect(await bench.eventsOf(slot)).toMatchObject([{ result: 'looked', attempts: 1 }]);
  });

  it('H1: makes one transition when it comes before the HTTP reply', async () => {
    const slot = await bench.claimed();
    bench.engine.simulator.setWebhook({
      url: bench.url,
      secret: WEBHOOK_SECRET,
      beforeReply: true,
    });
    const processor = startWebhookProcessor(bench.depsWith(), { ...QUICK, pollMs: 5 });
    bench.whenStored(() => processor.wake());
    expect(await attend(bench.engine.deps, slot)).toBe('charged');
    await expect
      .poll(async () => (await bench.eventsOf(slot)).map((event) => event.state))
      .toEqual(['processed', 'processed']);
    await processor.stop();
    await bench.expectChargedOnce(slot);
  });

  it('H3: ends in one row and one transition, whoever comes first', async () => {
    const first = await bench.chargedUnheard();
    await bench.engine.simulator.deliver();
    await bench.settle();
    await bench.expectChargedOnce(first);
    expect(await attend(bench.engine.deps, first)).toBe('charged');
    await bench.expectChargedOnce(first);

    const second = await bench.claimed();
    expect(await attend(bench.engine.deps, second)).toBe('charged');
    await bench.engine.simulator.deliver();
    await bench.settle();
    await bench.expectChargedOnce(second);
    const results = (await bench.eventsOf(second)).map((event) => event.result);
    expect(results).toEqual(['already_known', 'already_known']);
    expect(new Set(bench.looked())).toEqual(new Set([first.customerId]));
  });

  it('H7: leads to the same end in all six orders of the three events of a payment', async () => {
    const types = ['payment_intent.created', 'charge.succeeded', 'payment_intent.succeeded'];
    for (const order of permutations(types)) {
      const slot = await bench.chargedUnheard();
      const held = await bench.heldEvents(slot);
      for (const type of order) {
        await bench.engine.simulator.deliver({ ids: [held.get(type) ?? ''] });
        await bench.settle();
      }
      await bench.expectChargedOnce(slot);
      const results = (await bench.eventsOf(slot)).map((event) => event.result);
      expect(results).toEqual(['looked', 'already_known']);
    }
  });

  it('H11: has one effect when it comes three times, and when two events tell of one fact', async () => {
    const slot = await bench.chargedUnheard();
    await bench.engine.simulator.deliver({ copies: 3 });
    const [charge, payment] = (await bench.eventsOf(slot)).map((event) => event.type).sort();
    expect([charge, payment]).toEqual(['charge.succeeded', 'payment_intent.succeeded']);
    const intent = (await readSlot(bench.engine.db, slot)).payment_intent_id ?? '';
    await post(bench.app, eventOf({ id: 'evt_same_fact', intent, slot }));
    expect(await bench.eventsOf(slot)).toHaveLength(3);
    await bench.settle();
    await bench.settle();
    await bench.expectChargedOnce(slot);
    expect((await bench.eventsOf(slot)).every((event) => event.state === 'processed')).toBe(true);
  });

  it('G11, H13: makes one transition when two processors and the charge itself complete at once', async () => {
    const slot = await bench.chargedUnheard();
    await bench.engine.simulator.deliver();
    const both = () => bench.pass();
    await Promise.all([both(), both(), attend(bench.engine.deps, slot)]);
    await bench.settle();
    await bench.expectChargedOnce(slot);
    for (const event of await bench.eventsOf(slot)) expect(event.attempts).toBeLessThanOrEqual(2);
  });

  it('asks again later while its customer is being charged, and is not lost meanwhile', async () => {
    const slot = await bench.chargedUnheard();
    await bench.engine.simulator.deliver({ types: ['payment_intent.succeeded'] });
    let running = 3;
    await bench.settle(async (ref) => {
      running -= 1;
      return running > 0 ? 'alreadyRunning' : bench.realLook(ref);
    });
    await bench.expectChargedOnce(slot);
    expect(await bench.eventsOf(slot)).toMatchObject([{ result: 'looked', attempts: 3 }]);
  });

  it('H10: is kept with what went wrong while Temporal is away, and processed when it is back', async () => {
    const slot = await bench.chargedUnheard();
    await bench.engine.simulator.deliver({ types: ['payment_intent.succeeded'] });
    await bench.pass(async () => {
      throw new Error('no connection to Temporal');
    });
    expect(await bench.eventsOf(slot)).toMatchObject([
      { state: 'received', last_error: 'no connection to Temporal' },
    ]);
    await bench.settle();
    await bench.expectChargedOnce(slot);
    expect(await bench.eventsOf(slot)).toMatchObject([{ state: 'processed', last_error: null }]);
  });

  it('is taken over when the processor that had claimed it is killed', async () => {
    const slot = await bench.chargedUnheard();
    await bench.engine.simulator.deliver({ types: ['payment_intent.succeeded'] });
    await claimWebhookEvents(bench.engine.db, { limit: 10, leaseMs: 400 });
    await bench.settle();
    expect(bench.looked()).toEqual([]);
    await expect
      .poll(async () => {
        await bench.pass();
        return (await bench.eventsOf(slot))[0]?.state;
      })
      .toBe('processed');
    await bench.expectChargedOnce(slot);
  });
});
