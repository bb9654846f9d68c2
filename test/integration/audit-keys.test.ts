import { afterEach, beforeEach, expect, test } from 'vitest';
import { readSlot, slotRef } from '../support/engine.ts';
import { BilledPeriod, found, RUN } from './audit-fixture.ts';

let period: BilledPeriod;

beforeEach(async () => {
  period = await BilledPeriod.bill();
});

afterEach(() => period.close());

test('fails when something was sent under our key without a recorded attempt', async () => {
  const slot = await readSlot(period.engine.db, slotRef('ada', RUN));
  const { request_body: body } = await period.engine.db
    .selectFrom('charge_generations')
    .select('request_body')
    .where('idempotency_key', '=', slot.idempotency_key ?? '')
    .executeTakeFirstOrThrow();
  const path = `/v1/payment_intents/${slot.payment_intent_id}/confirm`;
  expect(
    await period.post(path, { key: slot.idempotency_key ?? '', body: new URLSearchParams(body) }),
  ).toBe(200);
  expect(found(await period.audit())).toEqual(['attempt_differs ada']);
});

test('fails when one key went out with several bodies', async () => {
  const key = (await period.createKeyOf('ada')) ?? '';
  const body = new URLSearchParams({ amount: '1', currency: 'usd' });
  expect(await period.post('/v1/payment_intents', { key, body })).toBe(400);
  expect(found(await period.audit())).toEqual(['attempt_differs ada', 'several_bodies ada']);
});

test('fails when an attempt went out under another key than it was recorded with', async () => {
  const confirmKey = (await readSlot(period.engine.db, slotRef('ada', RUN))).idempotency_key ?? '';
  const createKey = (await period.createKeyOf('ada')) ?? '';
  await period.tamper(
    `UPDATE charge_attempts SET idempotency_key = '${createKey}' WHERE idempotency_key = '${confirmKey}'`,
  );
  expect(found(await period.audit())).toEqual(['attempt_differs ada']);
});

test('fails when one generation has several keys', async () => {
  await period.tamper(
    'ALTER TABLE charge_generations DROP CONSTRAINT one_key_per_generation',
    `INSERT INTO charge_generations (idempotency_key, namespace, period, customer_id, operation, generation,
         request_body, api_version, outcome, finished_at)
       SELECT 'second-key', namespace, period, customer_id, operation, generation, request_body, api_version,
         'created', now() FROM charge_generations WHERE customer_id = 'ada' AND operation = 'create'`,
  );
  expect(found(await period.audit())).toEqual(['several_keys ada']);
});

test("fails when the slot's key is not that of its generation's confirm", async () => {
  await period.tamper(
    "UPDATE billing_charges SET idempotency_key = 'other-key' WHERE customer_id = 'ada'",
  );
  expect(found(await period.audit())).toEqual(['key_differs ada']);
});

test('fails when a generation was charged and the slot names another charge', async () => {
  await period.tamper(
    "UPDATE charge_generations SET charge_id = 'ch_x' WHERE customer_id = 'ada' AND outcome = 'charged'",
  );
  expect(found(await period.audit())).toEqual(['generation_differs ada']);
});

test('fails when a recorded attempt went out under a key that was never stored', async () => {
  const { attempt_id: attemptId } = await period.engine.db
    .selectFrom('charge_attempts')
    .select('attempt_id')
    .where('idempotency_key', '=', (await period.createKeyOf('bob')) ?? '')
    .executeTakeFirstOrThrow();
  const body = new URLSearchParams({ amount: '1', currency: 'usd' });
  await period.post('/v1/payment_intents', { key: 'invented-per-attempt', body, attemptId });
  expect(found(await period.audit())).toEqual(['attempt_differs bob']);
});

test('fails when one key is stored for the requests of two customers', async () => {
  const key = (await period.createKeyOf('ada')) ?? '';
  await period.tamper(
    'ALTER TABLE charge_generations DROP CONSTRAINT charge_generations_pkey CASCADE',
    `UPDATE charge_generations SET idempotency_key = '${key}' WHERE customer_id = 'bob' AND operation = 'create'`,
  );
  const report = await period.audit();
  expect(found(report)).toContain('several_bodies bob');
  expect(report.findings.find(({ kind }) => kind === 'several_bodies')?.message).toContain(
    'is stored for two requests, of ada and bob',
  );
});
