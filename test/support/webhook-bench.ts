import { expect } from 'vitest';
import { look } from '../../src/activities/reconcile.ts';
import { record } from '../../src/activities/record.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import {
  processDueEvents,
  PROCESSOR_LIMITS,
  type Look,
  type ProcessorLimits,
} from '../../src/http/webhooks/process.ts';
import {
  attend,
  chargesOf,
  customersOf,
  readSlot,
  setFaults,
  startEngine,
  TEST_KEY,
  type TestCustomer,
} from './engine.ts';
import { keepingLog, webhookApp, WEBHOOK_SECRET } from './webhooks.ts';

/** No pauses: how long they are in production says PROCESSOR_LIMITS. */
export const QUICK: ProcessorLimits = {
  ...PROCESSOR_LIMITS,
  firstPauseMs: 0,
  longestPauseMs: 0,
  longestParkedPauseMs: 0,
  looksAtRefused: 3,
};

/** More tries than any event of a test needs. */
const ROUNDS = 6;

export type WebhookBench = Awaited<ReturnType<typeof startWebhookBench>>;

/**
 * Engine, simulator and inbox, joined by a real port. The simulator holds its events until a test
 * delivers them; a look is what the customer's workflow does for one, without Temporal.
 */
export async function startWebhookBench(ids: readonly string[], others: readonly TestCustomer[]) {
  const engine = await startEngine();
  await engine.plan([...ids.map((id) => ({ id })), ...others]);
  const { claimed } = customersOf(() => engine, ids);
  let kept = keepingLog();
  let looked: string[] = [];
  let onStored = (): void => {};
  const app = webhookApp({ db: engine.db, log: keepingLog().log, onStored: () => onStored() });
  const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/webhooks/stripe`;

  const realLook: Look = async (slot) => {
    looked.push(slot.customerId);
    const found = await look(engine.deps, slot);
    if (found.kind === 'settled') await record(engine.deps, slot, found.charge);
    return 'started';
  };
  const depsWith = (how: Look = realLook) => ({ db: engine.db, look: how, log: kept.log });
  const pass = (how?: Look, limits = QUICK) => processDueEvents(depsWith(how), limits);

  return {
    engine,
    app,
    url,
    claimed,
    realLook,
    depsWith,
    pass,
    lines: () => kept.lines,
    looked: () => looked,
    whenStored(work: () => void) {
      onStored = work;
    },
    /** Processes until every event has had all the tries it needs; parked ones stay. */
    async settle(how?: Look, limits?: ProcessorLimits): Promise<void> {
      for (let round = 0; round < ROUNDS; round += 1) await pass(how, limits);
    },
    begin() {
      kept = keepingLog();
      looked = [];
      engine.simulator.setWebhook({ url, secret: WEBHOOK_SECRET, mode: 'hold' });
    },
    async end() {
      onStored = () => {};
      engine.simulator.setFaults(undefined);
      engine.simulator.setWebhook({ url, secret: WEBHOOK_SECRET, mode: 'hold' });
      // What a test has held back is none of the next one's business.
      await engine.simulator.deliver();
      for (let round = 0; round < ROUNDS; round += 1) await pass();
    },
    async close() {
      await app.close();
      await engine.close();
    },
    async eventsOf(slot: SlotRef) {
      return engine.db
        .selectFrom('webhook_events')
        .selectAll()
        .where('customer_id', '=', slot.customerId)
        .orderBy('received_at')
        .execute();
    },
    async resultOf(eventId: string): Promise<string | null> {
      const row = await engine.db
        .selectFrom('webhook_events')
        .select('result')
        .where('event_id', '=', eventId)
        .executeTakeFirstOrThrow();
      return row.result;
    },
    /** Charged once: at Stripe, in our row, in the log. */
    async expectChargedOnce(slot: SlotRef): Promise<void> {
      expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'charged' });
      expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
      const transitions = await engine.db
        .selectFrom('audit_log')
        .select('id')
        .where('customer_id', '=', slot.customerId)
        .where('action', '=', 'slot.charged')
        .execute();
      expect(transitions).toHaveLength(1);
    },
    /** Charges a customer so that our process never hears of it: the slot stays in doubt. */
    async chargedUnheard(): Promise<SlotRef> {
      const slot = await claimed();
      setFaults(engine.simulator, { endpoint: 'payment_intents.confirm', kind: 'actThen500' });
      expect(await attend(engine.deps, slot, 1)).toBe('indeterminate');
      engine.simulator.setFaults(undefined);
      return slot;
    },
    /** Event ids that the simulator has for a customer, by type. */
    async heldEvents(slot: SlotRef): Promise<ReadonlyMap<string, string>> {
      const answer = await fetch(`${engine.simulator.url}/v1/events?limit=100`, {
        headers: { Authorization: `Bearer ${TEST_KEY}` },
      });
      const { data } = JSON.parse(await answer.text());
      const found = new Map<string, string>();
      for (const event of data) {
        if (event.data.object.metadata.chargeonce_customer === slot.customerId)
          found.set(event.type, event.id);
      }
      return found;
    },
  };
}
