import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { noteUnknown } from '../../src/db/reviews.ts';
import { planRun } from '../../src/db/runs.ts';
import type { RunRef, SlotRef } from '../../src/domain/ids.ts';
import { rerunsAnswer } from '../../src/http/api/schemas/reruns.ts';
import {
  ageSends,
  attend,
  chargesOf,
  insertCustomers,
  readSlot,
  runRef,
  setFaults,
  slotRef,
} from '../support/engine.ts';
import { PAUL, startOperatorApi, VERA, type OperatorApi } from '../support/operator-api.ts';
import { startQuietDevServer, startStack, type Stack } from '../support/stack.ts';

const DECLINED = 'pm_card_visa_chargeDeclined';
const RUN = runRef('2031-01');
let env: TestWorkflowEnvironment;
let stack: Stack;
let api: OperatorApi;

beforeAll(async () => {
  env = await startQuietDevServer();
  stack = await startStack(env);
  api = await startOperatorApi(stack.db, {
    account: stack.deps.account,
    temporal: async () => stack.client,
    gatewayOf: () => stack.deps.gateway,
  });
  await insertCustomers(stack.db, [
    { id: 'good' },
    { id: 'broke1', paymentMethod: DECLINED },
    { id: 'broke2', paymentMethod: DECLINED },
    { id: 'broke3', paymentMethod: DECLINED },
    { id: 'broke4', paymentMethod: DECLINED },
    { id: 'nothing', amountMinor: 0 },
  ]);
  await stack.client.startRun(RUN, 'test');
  await stack.client.run(RUN).result();
});
afterEach(() => stack.simulator.setFaults(undefined));
afterAll(async () => {
  await api.close();
  await stack.close();
  await env.teardown();
});

const reason = 'a new card has come';
const rerunPath = (customer: string, run: RunRef = RUN): string =>
  `/v1/runs/${run.period}/customers/${customer}/rerun`;

async function newCard(...customers: readonly string[]): Promise<void> {
  await stack.db
    .updateTable('customers')
    .set({ payment_method_id: 'pm_card_visa' })
    .where('customer_id', 'in', customers)
    .execute();
}

async function settles(slot: SlotRef, state: string): Promise<void> {
  await expect.poll(async () => (await readSlot(stack.db, slot)).state).toBe(state);
}

async function rerunsLogged(customer: string, run: RunRef = RUN) {
  return stack.db
    .selectFrom('audit_log')
    .select(['actor', 'action', 'reason'])
    .where('customer_id', '=', customer)
    .where('period', '=', run.period)
    .where('action', 'like', 'rerun.%')
    .orderBy('id')
    .execute();
}

describe('POST /v1/runs/{period}/customers/{customer}/rerun', () => {
  it('executes one order per Idempotency-Key, also when it comes again after the stored response is gone', async () => {
    await newCard('broke1');
    const slot = slotRef('broke1', RUN);
    const order = { body: { reason }, key: 'order-1' };
    const forgetful = await startOperatorApi(stack.db, {
      account: stack.deps.account,
      temporal: async () => stack.client,
      retentionMs: 1,
    });
    const first = await forgetful.call('POST', rerunPath('broke1'), order);
    expect(first).toMatchObject({
      status: 202,
      body: { answer: 'accepted', request_id: expect.stringMatching(/^api-[0-9a-f]{64}$/) },
    });
    await settles(slot, 'charged');
    const late = await forgetful.call('POST', rerunPath('broke1'), order);
    expect(late.headers.get('idempotent-replayed')).toBeNull();
    expect({ status: late.status, body: late.body }).toEqual({ status: 202, body: first.body });
    await forgetful.close();
    expect(chargesOf(stack.simulator, 'broke1')).toBe(1);
    expect(await rerunsLogged('broke1')).toEqual([
      { actor: 'olga', action: 'rerun.accepted', reason },
    ]);
    expect(await readSlot(stack.db, slot)).toMatchObject({ state: 'charged', generation: 2 });
  });

  it('answers 409 for a customer that is charged already, and sends nothing', async () => {
    const answer = await api.call('POST', rerunPath('good'), { body: { reason } });
    expect(answer).toMatchObject({
      status: 409,
      body: { code: 'already-charged', state: 'already_charged' },
    });
    expect(chargesOf(stack.simulator, 'good')).toBe(1);
  });

  it('answers 409 where nothing is due, 404 for an unknown customer and for a period that was never planned', async () => {
    const due = await api.call('POST', rerunPath('nothing'), { body: { reason } });
    expect(due).toMatchObject({ status: 409, body: { code: 'nothing-due' } });
    const nobody = await api.call('POST', rerunPath('nobody'), { body: { reason } });
    expect(nobody).toMatchObject({ status: 404, body: { code: 'customer-unknown' } });
    const never = await api.call('POST', rerunPath('good', runRef('2040-01')), {
      body: { reason },
    });
    expect(never).toMatchObject({ status: 404, body: { code: 'run-unknown' } });
  });

  it('is for operators, wants a reason, and leaves the key unused where it refuses', async () => {
    const viewer = await api.call('POST', rerunPath('good'), { as: VERA, body: { reason } });
    expect(viewer).toMatchObject({ status: 403, body: { code: 'role-insufficient' } });
    const silent = await api.call('POST', rerunPath('good'), { body: {}, key: 'order-2' });
    expect(silent).toMatchObject({
      status: 400,
      body: { code: 'parameter-invalid', errors: [{ in: 'body', field: 'reason' }] },
    });
    const said = await api.call('POST', rerunPath('good'), { body: { reason }, key: 'order-2' });
    expect(said).toMatchObject({ status: 409, body: { code: 'already-charged' } });
  });

  it('answers 503 while Temporal is away, and the same key orders it later', async () => {
    let away = true;
    const other = await startOperatorApi(stack.db, {
      account: stack.deps.account,
      temporal: async () => {
        if (away) throw new Error('Temporal is away');
        return stack.client;
      },
    });
    const order = { as: PAUL, body: { reason }, key: 'order-3' };
    const first = await other.call('POST', rerunPath('good'), order);
    expect(first).toMatchObject({ status: 503, body: { code: 'temporal-unavailable' } });
    away = false;
    const second = await other.call('POST', rerunPath('good'), order);
    expect(second).toMatchObject({ status: 409, body: { code: 'already-charged' } });
    await other.close();
  });
});

describe('POST /v1/runs/{period}/reruns', () => {
  const path = `/v1/runs/${RUN.period}/reruns`;

  it('answers each of the named customers for itself, with a count', async () => {
    await newCard('broke2');
    const customers = ['broke2', 'good', 'nothing', 'nobody', 'good'];
    const { status, body } = await api.call('POST', path, { body: { reason, customers } });
    expect({ status, body }).toMatchObject({
      status: 202,
      body: {
        data: [
          { customer_id: 'broke2', answer: 'accepted' },
          { customer_id: 'good', answer: 'already_charged' },
          { customer_id: 'nothing', answer: 'nothing_due' },
          { customer_id: 'nobody', answer: 'unknown_customer' },
        ],
        counts: { accepted: 1, already_charged: 1, nothing_due: 1, unknown_customer: 1 },
        next: null,
      },
    });
    const ids = rerunsAnswer.parse(body).data.map(({ request_id }) => request_id);
    expect(new Set(ids).size).toBe(4);
    await settles(slotRef('broke2', RUN), 'charged');
  });

  it('reruns everybody of an outcome and a reason in bounded orders, each saying how to go on', async () => {
    await newCard('broke3', 'broke4');
    const filter = { outcome: 'declined', reason: 'generic_decline' };
    const order = { reason, filter, limit: 1 };
    const first = rerunsAnswer.parse((await api.call('POST', path, { body: order })).body);
    expect(first.data).toMatchObject([{ customer_id: 'broke3', answer: 'accepted' }]);
    await settles(slotRef('broke3', RUN), 'charged');
    const more = { ...order, after: first.next };
    const second = rerunsAnswer.parse((await api.call('POST', path, { body: more })).body);
    expect(second.data).toMatchObject([{ customer_id: 'broke4', answer: 'accepted' }]);
    expect(second.next).toBeNull();
    await settles(slotRef('broke4', RUN), 'charged');
    for (const id of ['broke3', 'broke4']) expect(chargesOf(stack.simulator, id)).toBe(1);
  });

  it('takes customers or a filter, never both, and at most a thousand names', async () => {
    const filter = { outcome: 'declined' };
    const refused = [
      { reason },
      { reason, customers: ['good'], filter },
      { reason, customers: [] },
      { reason, customers: Array.from({ length: 1_001 }, (_, i) => `c${i}`) },
      { reason, filter: { outcome: 'charged' } },
    ];
    for (const body of refused)
      expect(await api.call('POST', path, { body })).toMatchObject({
        status: 400,
        body: { code: 'parameter-invalid' },
      });
  });
});

describe('POST …/resolution as absent', () => {
  it('bills the customer again at once, on the same PaymentIntent', async () => {
    const run = runRef('2031-02');
    await planRun(stack.db, run, 'test');
    const slot = slotRef('good', run);
    await claimSlot(stack.deps, slot);
    setFaults(stack.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'resetBefore',
      rate: 1,
    });
    await attend(stack.deps, slot, 1);
    stack.simulator.setFaults(undefined);
    await ageSends(stack.db, slot, '80 hours');
    const unknown = { generation: 1, reason: 'look_up_failed', reviewAfterHours: 72 };
    await noteUnknown(stack.db, slot, unknown);
    const { payment_intent_id: intent } = await readSlot(stack.db, slot);
    const path = `/v1/runs/${run.period}/customers/good/resolution`;
    const body = { as: 'absent', evidence: 'nothing in the dashboard' };
    expect(await api.call('POST', path, { as: PAUL, body })).toMatchObject({
      status: 200,
      body: { answer: 'decided', generation: 1, rerun: 'accepted' },
    });
    await settles(slot, 'charged');
    expect(await readSlot(stack.db, slot)).toMatchObject({
      generation: 2,
      payment_intent_id: intent,
    });
    expect(await rerunsLogged('good', run)).toEqual([
      { actor: 'paul', action: 'rerun.accepted', reason: `resolved as absent: ${body.evidence}` },
    ]);
  });
});
