import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { readStripeWebhook, type SignedBody } from '../../src/payments/stripe-webhook.ts';

const SECRET = 'whsec_unit_test';
const OLD_SECRET = 'whsec_unit_test_old';
const NOW_MS = Date.UTC(2026, 10, 1);
const NOW = NOW_MS / 1000;
const KEY = `bill.v1.${'a'.repeat(64)}`;

const metadata = {
  chargeonce_namespace: 'base',
  chargeonce_customer: 'cust_1',
  chargeonce_period: '2026-11',
};

function eventText(more: object = {}, object: object = {}): string {
  return JSON.stringify({
    id: 'evt_1',
    object: 'event',
    type: 'payment_intent.succeeded',
    api_version: '2026-10-28.endive',
    created: NOW,
    livemode: false,
    request: { id: 'req_1', idempotency_key: KEY },
    data: {
      object: {
        id: 'pi_1',
        object: 'payment_intent',
        latest_charge: 'ch_1',
        receipt_email: 'jane@example.com',
        metadata,
        ...object,
      },
    },
    ...more,
  });
}

function sign(text: string, at = NOW, secret = SECRET): string {
  return `t=${at},v1=${createHmac('sha256', secret).update(`${at}.${text}`).digest('hex')}`;
}

function read(text: string, more: Partial<SignedBody> = {}, secrets = [SECRET]) {
  const signed = { body: Buffer.from(text), signature: sign(text), nowMs: NOW_MS, ...more };
  return readStripeWebhook(secrets, signed);
}

const refusal = (reading: ReturnType<typeof read>) =>
  reading.kind === 'refused' ? reading.reason : reading.kind;

describe('readStripeWebhook', () => {
  it('takes ids, our metadata and our key out of an event, and nothing else', () => {
    expect(read(eventText())).toEqual({
      kind: 'event',
      event: {
        eventId: 'evt_1',
        type: 'payment_intent.succeeded',
        apiVersion: '2026-10-28.endive',
        account: null,
        livemode: false,
        createdSeconds: NOW,
        objectId: 'pi_1',
        paymentIntentId: 'pi_1',
        chargeId: 'ch_1',
        idempotencyKey: KEY,
        slot: { namespace: 'base', customerId: 'cust_1', period: '2026-11' },
      },
    });
  });

  it.each([
    [299, 'event'],
    [300, 'event'],
    [301, 'stale_signature'],
    [86_400, 'stale_signature'],
    [-300, 'event'],
    [-301, 'stale_signature'],
  ])('of a signature that is %i s old makes: %s', (age, expected) => {
    const text = eventText();
    expect(refusal(read(text, { signature: sign(text, NOW - age) }))).toBe(expected);
  });

  it('accepts any of several secrets, and none that was removed', () => {
    const text = eventText();
    const signature = sign(text, NOW, OLD_SECRET);
    expect(refusal(read(text, { signature }, [SECRET, OLD_SECRET]))).toBe('event');
    expect(refusal(read(text, { signature }, [SECRET]))).toBe('wrong_signature');
    expect(refusal(read(text, { signature }, []))).toBe('wrong_signature');
  });

  it('accepts a header with the signatures of two secrets', () => {
    const text = eventText();
    const [, other = ''] = sign(text, NOW, OLD_SECRET).split(',');
    const signature = `${sign(text)},${other}`;
    expect(refusal(read(text, { signature }, [OLD_SECRET]))).toBe('event');
  });

  it.each<[string, string | undefined, string]>([
    ['none', undefined, 'no_signature'],
    ['an empty one', '', 'no_signature'],
    ['no time', `v1=${'0'.repeat(64)}`, 'wrong_signature'],
    ['no signature of the scheme v1', `t=${NOW},v0=${'0'.repeat(64)}`, 'wrong_signature'],
    ['a wrong signature', `t=${NOW},v1=${'0'.repeat(64)}`, 'wrong_signature'],
    ['a short signature', `t=${NOW},v1=00`, 'wrong_signature'],
    ['a time that is no number', `t=NaN,v1=${'0'.repeat(64)}`, 'wrong_signature'],
    ['nonsense', 'nonsense', 'wrong_signature'],
  ])('refuses a header with %s', (_what, signature, expected) => {
    expect(refusal(read(eventText(), { signature }))).toBe(expected);
  });

  it('refuses a body that differs in one byte, or in its white space', () => {
    const text = eventText();
    const signature = sign(text);
    for (const body of [
      text.replace('pi_1', 'pi_2'),
      `${text} `,
      JSON.stringify(JSON.parse(text), null, 1),
    ]) {
      expect(refusal(read(text, { body: Buffer.from(body), signature }))).toBe('wrong_signature');
    }
  });

  it('refuses bytes that are not UTF-8, even where their decoded text is signed', () => {
    const body = Buffer.concat([Buffer.from(eventText()), Buffer.from([0xff])]);
    const signature = sign(body.toString('utf8'));
    expect(refusal(read('', { body, signature }))).toBe('wrong_signature');
  });

  it.each([
    ['no JSON', '{'],
    ['another object', JSON.stringify({ object: 'list', data: [] })],
    ['a thin event', JSON.stringify({ object: 'v2.core.event', id: 'evt_1' })],
    ['no livemode', eventText({ livemode: undefined })],
    ['an id that is none', eventText({ id: 'evt 1; drop' })],
  ])('refuses a signed body that is %s', (_what, text) => {
    expect(refusal(read(text))).toBe('not_an_event');
  });

  it('reads the PaymentIntent of a charge, a refund and a dispute', () => {
    const objects = [
      { id: 'ch_1', object: 'charge', payment_intent: 'pi_9', latest_charge: undefined },
      { id: 'ch_1', object: 'charge', payment_intent: { id: 'pi_9' } },
      { id: 'dp_1', object: 'dispute', payment_intent: 'pi_9', charge: 'ch_1' },
    ];
    for (const object of objects) {
      const reading = read(eventText({ type: 'charge.refunded' }, object));
      expect(reading).toMatchObject({ event: { paymentIntentId: 'pi_9', chargeId: 'ch_1' } });
    }
  });

  it.each([
    ['an e-mail as customer', { ...metadata, chargeonce_customer: 'jane@example.com' }],
    ['a period that is none', { ...metadata, chargeonce_period: '2026-13' }],
    ['a part missing', { chargeonce_customer: 'cust_1' }],
    ['no text', { ...metadata, chargeonce_customer: 7 }],
    ['nothing', null],
  ])('I15: keeps no metadata that could not be ours: %s', (_what, given) => {
    const reading = read(eventText({}, { metadata: given }));
    expect(reading).toMatchObject({ kind: 'event', event: { slot: null } });
    expect(JSON.stringify(reading)).not.toContain('jane');
  });

  it("I15: keeps no idempotency key of others, which may be anybody's name", () => {
    for (const key of ['jane@example.com-2026-11', `${KEY}x`, null]) {
      const reading = read(eventText({ request: { id: 'req_1', idempotency_key: key } }));
      expect(reading).toMatchObject({ kind: 'event', event: { idempotencyKey: null } });
    }
    expect(read(eventText({ request: null }))).toMatchObject({ event: { idempotencyKey: null } });
  });
});
