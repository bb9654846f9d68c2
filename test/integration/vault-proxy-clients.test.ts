import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import Stripe from 'stripe';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import type { Simulator } from '../../src/simulator/index.ts';
import { auditOf, ledgerOf } from '../support/vault-audit.ts';
import { startStripe, startVaultProxy, type VaultProxy } from '../support/vault-proxy.ts';

const run = promisify(execFile);

let stripe: Simulator;
let vault: VaultProxy;

beforeAll(async () => {
  stripe = await startStripe();
  vault = await startVaultProxy({ upstreamUrl: stripe.url });
});

afterAll(async () => {
  await vault.close();
  await stripe.close();
});

describe('stripe for Node, but for its host and key as everywhere', () => {
  const clientOf = (key: string) =>
    new Stripe(key, {
      host: '127.0.0.1',
      port: vault.port,
      protocol: 'http',
      maxNetworkRetries: 1,
    });

  it('creates, confirms, reads, lists and refunds', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 2_000 });
    const client = clientOf(key);
    const made = await client.paymentIntents.create({
      amount: 1_500,
      currency: 'usd',
      customer: 'cus_node',
      payment_method: 'pm_card_visa',
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
      description: 'Plan; seats = 3 & more, für Zoë',
      metadata: { 'order id': '6735 + 1' },
    });
    const paid = await client.paymentIntents.confirm(made.id);
    expect(paid.status).toBe('succeeded');
    expect((await client.paymentIntents.retrieve(made.id)).metadata).toEqual({
      'order id': '6735 + 1',
    });
    const listed = await client.paymentIntents.list({ customer: 'cus_node', limit: 10 });
    expect(listed.data.map(({ id }) => id)).toEqual([made.id]);
    expect((await client.refunds.create({ payment_intent: made.id })).status).toBe('succeeded');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 1_500,
      reservations: [{ state: 'spent' }],
    });
  });

  it('hears of a decline as a card error, and of the cap as none, once', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 2_000 });
    const client = clientOf(key);
    const params = {
      amount: 1_500,
      currency: 'usd',
      customer: 'cus_node',
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
      confirm: true,
    } as const;
    const declined = client.paymentIntents.create({
      ...params,
      payment_method: 'pm_card_chargeDeclined',
    });
    await expect(declined).rejects.toMatchObject({ statusCode: 402, rawType: 'card_error' });
    const tooMuch = client.paymentIntents.create({
      ...params,
      amount: 2_001,
      payment_method: 'pm_card_visa',
    });
    await expect(tooMuch).rejects.toMatchObject({
      statusCode: 402,
      rawType: 'vault_error',
      code: 'spend_cap_exceeded',
    });
    const decisions = (await auditOf(vault.db, keyId)).map(({ decision }) => decision);
    expect(decisions).toEqual(['forward', 'spend_cap_exceeded']);
  });
});

it("our own engine's client bills through it with the bytes that it froze", async () => {
  const { key, keyId } = await vault.makeKey();
  const gateway = createStripeGateway({ apiKey: key, apiBase: vault.url, timeoutMs: 5_000 });
  const body =
    'amount=700&currency=usd&customer=cus_engine&payment_method=pm_card_visa&payment_method_types[]=card';
  const frozen = {
    apiVersion: gateway.apiVersion,
    attemptId: 'attempt-1',
    onResend: async () => {},
  };
  const made = await gateway.createPaymentIntent({
    ...frozen,
    idempotencyKey: 'engine-create-1',
    body,
  });
  expect(made).toMatchObject({ kind: 'intent', intent: { status: 'requires_confirmation' } });
  const id = made.kind === 'intent' ? made.intent.id : 'none';
  const paid = await gateway.confirmPaymentIntent(id, {
    ...frozen,
    idempotencyKey: 'engine-confirm-1',
    body: 'off_session=true&payment_method=pm_card_visa',
  });
  expect(paid).toMatchObject({ kind: 'intent', intent: { status: 'succeeded' } });
  expect(
    (await gateway.listPaymentIntents({ customer: 'cus_engine', createdGte: 0 })).map(
      (one) => one.id,
    ),
  ).toEqual([id]);
  expect(await auditOf(vault.db, keyId)).toMatchObject([
    { idempotencyKey: 'engine-create-1', attemptId: 'attempt-1', amountMinor: 700, effect: 'held' },
    {
      idempotencyKey: 'engine-confirm-1',
      attemptId: 'attempt-1',
      amountMinor: 700,
      effect: 'spent',
    },
    { path: '/v1/payment_intents', effect: 'none' },
  ]);
  gateway.close();
});

describe('plain curl', () => {
  const curl = async (...args: string[]) => {
    const { stdout } = await run('curl', ['-sS', '--noproxy', '*', ...args]);
    return JSON.parse(stdout);
  };

  it("pays with Stripe's own example, but for host and key", async () => {
    const { key, keyId } = await vault.makeKey();
    const payment =
      'amount=2000&currency=usd&customer=cus_curl&confirm=true&payment_method=pm_card_visa'
        .concat(
          '&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never',
        )
        .concat('&description=for you')
        .split('&')
        .flatMap((pair) => ['-d', pair]);
    const intents = `${vault.url}/v1/payment_intents`;
    const withKey = ['-u', `${key}:`, '-H', 'Idempotency-Key: from curl'];
    const paid = await curl(intents, ...withKey, ...payment);
    expect(paid).toMatchObject({ object: 'payment_intent', status: 'succeeded', amount: 2_000 });
    const read = await curl(
      `${vault.url}/v1/payment_intents/${paid.id}`,
      '-H',
      `Authorization: Bearer ${key}`,
    );
    expect(read.id).toBe(paid.id);
    const listed = await curl(
      '-G',
      `${vault.url}/v1/payment_intents`,
      '-u',
      `${key}:`,
      '-d',
      'customer=cus_curl',
    );
    expect(listed.data).toHaveLength(1);
    const refused = await curl(`${vault.url}/v1/payment_intents`, '-u', `${key}:`, ...payment);
    expect(refused.error).toMatchObject({ type: 'vault_error', code: 'idempotency_key_missing' });
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(2_000);
  });

  it('gets its paths through the policy as they are, and none that it hides', async () => {
    const { key } = await vault.makeKey();
    const asIs = (path: string) =>
      curl(
        '--path-as-is',
        '-u',
        `${key}:`,
        '-H',
        'Idempotency-Key: k',
        '-d',
        'a=b',
        `${vault.url}${path}`,
      );
    for (const path of [
      '/v1/payment_intents/../payouts',
      '/v1/payment_intents%2f..%2fpayouts',
      '//v1/payouts',
    ]) {
      expect((await asIs(path)).error.code).toBe('bad_target');
    }
    expect((await asIs('/v1/payouts')).error.code).toBe('endpoint_not_allowed');
  });
});
