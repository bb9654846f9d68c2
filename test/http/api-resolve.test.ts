import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { resolveSlot } from '../../src/db/resolutions.ts';
import { noteUnknown } from '../../src/db/reviews.ts';
import { queryable } from '../../src/db/queryable.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { fingerprint } from '../../src/http/idempotency/fingerprint.ts';
import { PostgresIdempotencyStore } from '../../src/http/idempotency/index.ts';
import {
  ageSends,
  attend,
  customersOf,
  readSlot,
  setFaults,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { ADA, OLGA, PAUL, startOperatorApi, type OperatorApi } from '../support/operator-api.ts';

const ids = Array.from({ length: 12 }, (_, i) => `v${String(i).padStart(2, '0')}`);
let engine: Engine;
let api: OperatorApi;
const { claimed, fresh } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
  api = await startApi();
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(async () => {
  await api.close();
  await engine.close();
});

const startApi = (parts: Parameters<typeof startOperatorApi>[1] = {}) =>
  startOperatorApi(engine.db, {
    account: engine.deps.account,
    gatewayOf: () => engine.deps.gateway,
    ...parts,
  });

/** A slot whose confirm was lost, before or after it took effect, three days ago. */
async function inReview(lost: 'resetBefore' | 'actThenDrop' = 'resetBefore'): Promise<SlotRef> {
  const slot = await claimed();
  setFaults(engine.simulator, { endpoint: 'payment_intents.confirm', kind: lost, rate: 1 });
  await attend(engine.deps, slot, 1);
  engine.simulator.setFaults(undefined);
  await ageSends(engine.db, slot, '80 hours');
  await noteUnknown(engine.db, slot, {
    generation: 1,
    reason: 'look_up_failed',
    reviewAfterHours: 72,
  });
  expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'in_review' });
  return slot;
}

const pathOf = ({ period, customerId }: SlotRef): string =>
  `/v1/runs/${period}/customers/${customerId}/resolution`;

const evidence = 'nothing in the dashboard, ticket 4711';
const ABSENT = { as: 'absent', evidence, rerun: false };

/** The charge that the simulator has made for a customer. */
async function chargeOf(slot: SlotRef): Promise<string> {
  const { payment_intent_id: intent } = await readSlot(engine.db, slot);
  const [charge] = await engine.deps.gateway.listChargesOf(intent ?? '');
  return charge?.id ?? '';
}

describe('POST /v1/runs/{period}/customers/{customer}/resolution', () => {
  it('decides as absent, with who and why in the audit log, and once per key', async () => {
    const slot = await inReview();
    const order = { as: PAUL, body: ABSENT, key: `k-${slot.customerId}` };
    const first = await api.call('POST', pathOf(slot), order);
    expect(first).toMatchObject({
      status: 200,
      body: { answer: 'decided', generation: 1, rerun: null },
    });
    const repeat = await api.call('POST', pathOf(slot), order);
    expect(repeat.body).toEqual(first.body);
    expect(await readSlot(engine.db, slot)).toMatchObject({ reason: 'resolved_absent' });
    const logged = await engine.db
      .selectFrom('audit_log')
      .select(['actor', 'reason'])
      .where('action', '=', 'slot.resolved_absent')
      .where('customer_id', '=', slot.customerId)
      .execute();
    expect(logged).toEqual([{ actor: 'paul', reason: evidence }]);
    const again = await api.call('POST', pathOf(slot), { as: PAUL, body: ABSENT });
    expect(again).toMatchObject({
      status: 409,
      body: { code: 'resolution-not-open', state: 'resolved_absent' },
    });
  });

  it('decides as charged where Stripe shows that the charge pays the slot', async () => {
    const slot = await inReview('actThenDrop');
    const charge = await chargeOf(slot);
    const body = { as: 'charged', charge, evidence };
    expect(await api.call('POST', pathOf(slot), { as: PAUL, body })).toMatchObject({
      status: 200,
      body: { answer: 'decided', rerun: null },
    });
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'charged', charge_id: charge });
  });

  it('changes nothing where Stripe shows something else', async () => {
    const slot = await inReview('actThenDrop');
    const other = fresh();
    await attend(engine.deps, other);
    const said = [
      { body: ABSENT, detail: /succeeded: that is no absence/ },
      {
        body: { as: 'charged', charge: await chargeOf(other), evidence },
        detail: /is a charge of cus_/,
      },
      { body: { as: 'charged', charge: 'ch_unknown', evidence }, detail: /does not know/ },
    ];
    for (const { body, detail } of said)
      expect(await api.call('POST', pathOf(slot), { as: PAUL, body })).toMatchObject({
        status: 409,
        body: { code: 'stripe-disagrees', detail: expect.stringMatching(detail) },
      });
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'in_review' });
  });

  it('changes nothing while Stripe does not answer', async () => {
    const slot = await inReview();
    setFaults(engine.simulator, { endpoint: '*', kind: 'resetBefore', rate: 1 });
    const answer = await api.call('POST', pathOf(slot), { as: PAUL, body: ABSENT });
    expect(answer).toMatchObject({ status: 503, body: { code: 'stripe-unavailable' } });
    expect(await readSlot(engine.db, slot)).toMatchObject({ reason: 'look_up_failed' });
  });

  it('wants two people of different names where the rule says so', async () => {
    const slot = await inReview();
    const strict = await startApi({ resolveApprovers: 2 });
    const proposal = { status: 202, body: { answer: 'proposed', by: 'paul' } };
    expect(await strict.call('POST', pathOf(slot), { as: PAUL, body: ABSENT })).toMatchObject(
      proposal,
    );
    // The same person again is one person, whatever the key.
    expect(await strict.call('POST', pathOf(slot), { as: PAUL, body: ABSENT })).toMatchObject(
      proposal,
    );
    expect(await strict.call('POST', pathOf(slot), { as: ADA, body: ABSENT })).toMatchObject({
      status: 200,
      body: { answer: 'decided' },
    });
    await strict.close();
  });

  it('says of a customer that is not in doubt how it stands', async () => {
    const slot = fresh();
    const unclaimed = await api.call('POST', pathOf(slot), { as: PAUL, body: ABSENT });
    expect(unclaimed).toMatchObject({
      status: 409,
      body: { code: 'resolution-not-open', state: 'unclaimed' },
    });
    await attend(engine.deps, slot);
    const charged = await api.call('POST', pathOf(slot), { as: PAUL, body: ABSENT });
    expect(charged).toMatchObject({ status: 409, body: { state: 'charged' } });
    const nobody = await api.call('POST', '/v1/runs/2026-09/customers/nobody/resolution', {
      as: PAUL,
      body: ABSENT,
    });
    expect(nobody).toMatchObject({ status: 404, body: { code: 'customer-unknown' } });
  });

  it('is for approvers, and wants evidence in one line', async () => {
    const path = '/v1/runs/2026-09/customers/v00/resolution';
    const olga = await api.call('POST', path, { as: OLGA, body: ABSENT });
    expect(olga).toMatchObject({ status: 403, body: { code: 'role-insufficient' } });
    for (const body of [
      { as: 'absent', evidence: '  ' },
      { as: 'absent', evidence: 'two\nlines' },
      { as: 'charged', evidence },
      { as: 'absent', evidence, charge: 'ch_1' },
      { as: 'declined', evidence },
    ])
      expect(await api.call('POST', path, { as: PAUL, body })).toMatchObject({
        status: 400,
        body: { code: 'parameter-invalid' },
      });
  });

  it('finds the decision of a process that died before it answered', async () => {
    const slot = await inReview();
    const key = randomUUID();
    const path = pathOf(slot);
    const store = new PostgresIdempotencyStore(queryable(engine.db));
    const claim = {
      principal: PAUL.name,
      endpoint: '*',
      key,
      fingerprint: fingerprint({
        method: 'POST',
        url: path,
        contentType: 'application/json',
        body: Buffer.from(JSON.stringify(ABSENT)),
      }),
      holder: randomUUID(),
      leaseMs: 1,
      takeover: 'rerun' as const,
    };
    expect(await store.claim(claim)).toMatchObject({ kind: 'claimed' });
    const verdict = { as: 'absent' as const };
    await resolveSlot(engine.db, slot, { verdict, evidence, operator: PAUL.name, approvers: 1 });
    const answer = await api.call('POST', path, { as: PAUL, body: ABSENT, key });
    expect(answer).toMatchObject({ status: 200, body: { answer: 'decided', generation: 1 } });
  });
});
