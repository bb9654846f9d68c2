import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeAuditEntry } from '../../src/db/audit-log.ts';
import { storeWebhookEvent } from '../../src/db/webhook-events.ts';
import { story } from '../../src/http/api/schemas/story.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import {
  attend,
  customersOf,
  readSlot,
  setFaults,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { startOperatorApi, VERA, type OperatorApi } from '../support/operator-api.ts';

const ids = ['s1', 's2', 's3', 's4', 's5'];
let engine: Engine;
let api: OperatorApi;
const { fresh } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
  api = await startOperatorApi(engine.db, { account: engine.deps.account });
});
afterAll(async () => {
  await api.close();
  await engine.close();
});

const pathOf = (slot: SlotRef): string => `/v1/runs/${slot.period}/customers/${slot.customerId}`;

/** What the vault would have written: a create that was forwarded and a repeat that it refused. */
async function inVaultLog(slot: SlotRef, idempotencyKey: string): Promise<void> {
  await sql`INSERT INTO vault_keys (key_id, secret_hash, account, livemode, cap_basis, allowed_endpoints, expires_at, created_by)
    VALUES ('k1', decode(repeat('00', 32), 'hex'), 'acct_1', false, 'total', '{"POST /v1/payment_intents"}', now() + interval '1 day', 'test')`.execute(
    engine.db,
  );
  await sql`INSERT INTO vault_requests (request_id, key_id, idempotency_key, method, path, decision, amount_minor, currency, namespace, period, customer_id)
    VALUES ('00000000-0000-0000-0000-000000000001', 'k1', ${idempotencyKey}, 'POST', '/v1/payment_intents', 'forward', 1500, 'usd', ${slot.namespace}, ${slot.period}, ${slot.customerId})`.execute(
    engine.db,
  );
  await sql`INSERT INTO vault_answers (request_id, status, stripe_request_id, effect, duration_ms)
    VALUES ('00000000-0000-0000-0000-000000000001', 200, 'req_vault', 'held', 12)`.execute(
    engine.db,
  );
  // A refused repeat names no customer: it is found by its key.
  await sql`INSERT INTO vault_requests (request_id, key_id, idempotency_key, method, path, decision, at)
    VALUES ('00000000-0000-0000-0000-000000000002', 'k1', ${idempotencyKey}, 'POST', '/v1/payment_intents', 'idempotency_key_reused', now() + interval '1 second')`.execute(
    engine.db,
  );
}

describe('GET /v1/runs/{period}/customers/{customer}', () => {
  it('tells of a charge whose reply was lost: its keys, each send with its answer, and the outcome', async () => {
    const slot = fresh();
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'actThenDrop',
      nth: [1],
    });
    expect(await attend(engine.deps, slot)).toBe('charged');
    engine.simulator.setFaults(undefined);
    const row = await readSlot(engine.db, slot);
    const { status, body } = await api.call('GET', pathOf(slot), { as: VERA });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: {
        namespace: 'base',
        period: slot.period,
        customer_id: slot.customerId,
        stripe_customer: `cus_${slot.customerId}`,
        amount: 1500,
        currency: 'usd',
        outcome: 'charged',
        generation: 1,
        payment_intent: row.payment_intent_id,
        charge: row.charge_id,
        keys: [
          {
            operation: 'create',
            outcome: 'created',
            attempts: [{ answer: { status: 200, replayed: false } }],
          },
          {
            operation: 'confirm',
            outcome: 'charged',
            idempotency_key: row.idempotency_key,
            attempts: [
              { answer: { status: null, error: expect.any(String) } },
              { answer: { status: 200, replayed: true } },
            ],
          },
        ],
        vault: { answer: expect.stringContaining('Never reached the vault'), requests: [] },
        looks: [],
        events: [],
        refunds: [],
        resolutions: [],
        audit: [{ actor: 'run', action: 'slot.charged', reason: null }],
        workflows: [
          {
            id: `billing-${slot.period}`,
            url: `http://temporal.test:8233/namespaces/default/workflows/billing-${slot.period}`,
          },
          {
            id: `billing-${slot.period}/${slot.customerId}`,
            url: `http://temporal.test:8233/namespaces/default/workflows/billing-${slot.period}%2F${slot.customerId}`,
          },
        ],
        links: {
          stripe_payment: `https://dashboard.stripe.com/${engine.deps.account}/test/payments/${row.payment_intent_id}`,
        },
      },
    });
  });

  it('tells it in the order in which it happened', async () => {
    const slot = fresh();
    await attend(engine.deps, slot);
    const { body } = await api.call('GET', pathOf(slot));
    const { timeline } = story.parse(body);
    expect(timeline.map(({ kind }) => kind)).toEqual([
      'key',
      'key',
      'sent',
      'answered',
      'sent',
      'answered',
      'audit',
    ]);
    const times = timeline.map(({ at }) => Date.parse(at));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(timeline[3]?.text).toMatch(/^HTTP 200 to the create of generation 1, \d+ ms$/);
  });

  it('tells what the vault let out and refused, what Stripe told, and who ordered what', async () => {
    const slot = fresh();
    await attend(engine.deps, slot);
    const row = await readSlot(engine.db, slot);
    await inVaultLog(slot, row.idempotency_key ?? '');
    const event = {
      type: 'charge.dispute.created',
      apiVersion: null,
      account: null,
      livemode: false,
      createdSeconds: 1_900_000_000,
      objectId: 'dp_1',
      chargeId: row.charge_id,
      idempotencyKey: null,
    };
    // One is known by its PaymentIntent alone, one by our metadata alone, one is about somebody else.
    await storeWebhookEvent(engine.db, {
      ...event,
      eventId: 'evt_intent',
      paymentIntentId: row.payment_intent_id,
      slot: null,
    });
    await storeWebhookEvent(engine.db, {
      ...event,
      eventId: 'evt_slot',
      paymentIntentId: null,
      slot,
    });
    await storeWebhookEvent(engine.db, {
      ...event,
      eventId: 'evt_other',
      paymentIntentId: 'pi_other',
      slot: { ...slot, customerId: fresh().customerId },
    });
    await writeAuditEntry(engine.db, {
      ...slot,
      actor: 'olga',
      action: 'rerun.alreadyCharged',
      reason: 'the customer called',
    });
    const { body } = await api.call('GET', pathOf(slot));
    expect(body).toMatchObject({
      vault: {
        answer: expect.stringContaining('It went out once'),
        requests: [
          {
            decision: 'forward',
            amount: 1500,
            answer: { status: 200, stripe_request_id: 'req_vault' },
          },
          { decision: 'idempotency_key_reused', answer: null, customer_id: null },
        ],
      },
      audit: [
        { action: 'slot.charged' },
        { actor: 'olga', action: 'rerun.alreadyCharged', reason: 'the customer called' },
      ],
    });
    const { events } = story.parse(body);
    expect(events.map(({ event_id }) => event_id)).toEqual(['evt_intent', 'evt_slot']);
  });

  it('shows a customer with whom nobody has begun as unclaimed, without keys', async () => {
    const slot = fresh();
    const { status, body } = await api.call('GET', pathOf(slot));
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { outcome: 'unclaimed', generation: null, keys: [], timeline: [], audit: [] },
    });
  });

  it('says of an unknown customer whether its period is planned', async () => {
    const nobody = await api.call('GET', '/v1/runs/2026-09/customers/nobody');
    expect(nobody).toMatchObject({
      status: 404,
      body: { code: 'customer-unknown', detail: expect.stringContaining('is planned here') },
    });
    const never = await api.call('GET', '/v1/runs/2026-09/customers/s1?namespace=overage');
    expect(never).toMatchObject({ status: 404, body: { code: 'run-unknown' } });
    const wrong = await api.call('GET', '/v1/runs/2026-09/customers/a@b.example');
    expect(wrong).toMatchObject({ status: 400, body: { code: 'path-invalid' } });
    expect(JSON.stringify(wrong.body)).not.toContain('a@b.example');
  });
});
