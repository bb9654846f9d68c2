import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeReply, type Asked, type UpstreamAnswer } from '../../src/vault/judge-reply.ts';

const CREATE: Asked = {
  kind: 'create',
  object: 'payment_intent',
  objectId: null,
  amountMinor: 1500,
  currency: 'usd',
  stripeCustomer: 'cus_1',
};
const CONFIRM: Asked = { ...CREATE, kind: 'confirm', objectId: 'pi_1', stripeCustomer: null };

const intent = (status: string, more: object = {}) => ({
  object: 'payment_intent',
  id: 'pi_1',
  status,
  amount: 1500,
  currency: 'usd',
  customer: 'cus_1',
  ...more,
});
const reply = (status: number, body: unknown, more: object = {}): UpstreamAnswer => ({
  kind: 'reply',
  status,
  contentType: 'application/json',
  replayed: false,
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
  ...more,
});
const refusal = (status: number, error: object, more: object = {}) =>
  reply(status, { error }, more);
const short = (asked: Asked, answer: UpstreamAnswer) => {
  const { to, resolves, reason } = judgeReply(asked, answer);
  return `${to} ${resolves} ${reason}`;
};

describe('what an answer proves', () => {
  it.each([
    ['succeeded', 'spent key succeeded'],
    ['canceled', 'released key canceled'],
    ['requires_confirmation', 'held key requires_confirmation'],
    ['requires_payment_method', 'held key requires_payment_method'],
    ['processing', 'held nothing processing'],
    ['requires_action', 'held nothing requires_action'],
    ['requires_capture', 'held nothing requires_capture'],
    ['a_state_of_tomorrow', 'held nothing a_state_of_tomorrow'],
  ])('of an intent that is %s: %s', (status, expected) => {
    expect(short(CONFIRM, reply(200, intent(status)))).toBe(expected);
    expect(short(CREATE, reply(200, intent(status)))).toBe(expected);
  });

  it('names the object that a create made, and binds nothing else', () => {
    expect(judgeReply(CREATE, reply(200, intent('requires_confirmation'))).objectId).toBe('pi_1');
    expect(judgeReply(CONFIRM, reply(200, intent('succeeded'))).objectId).toBeNull();
    const declined = refusal(402, {
      type: 'card_error',
      payment_intent: intent('requires_payment_method'),
    });
    expect(judgeReply(CREATE, declined)).toMatchObject({ to: 'released', objectId: 'pi_1' });
  });

  it.each([
    ['amount', intent('succeeded', { amount: 1501 })],
    ['currency', intent('succeeded', { currency: 'eur' })],
    ['customer', intent('succeeded', { customer: 'cus_2' })],
    ['customer', intent('succeeded', { customer: null })],
    ['object', { ...intent('succeeded'), object: 'charge', id: 'ch_1' }],
  ])('holds and names the %s that is not what was asked for', (mismatch, body) => {
    expect(judgeReply(CREATE, reply(200, body))).toMatchObject({
      to: 'held',
      resolves: 'nothing',
      objectId: null,
      mismatch,
    });
  });

  it('holds a confirm that is answered with another intent, also in a decline', () => {
    const other = intent('succeeded', { id: 'pi_2' });
    expect(judgeReply(CONFIRM, reply(200, other))).toMatchObject({ to: 'held', mismatch: 'id' });
    const declined = refusal(402, {
      type: 'card_error',
      payment_intent: intent('requires_payment_method', { id: 'pi_2' }),
    });
    expect(judgeReply(CONFIRM, declined)).toMatchObject({ to: 'held', mismatch: 'id' });
  });

  it.each([
    ['no answer', { kind: 'lost', reason: 'econnreset' }],
    ['a time-out', { kind: 'lost', reason: 'upstream_timeout' }],
    ['a 200 cut off', reply(200, '{"object":"payment_intent","id":"pi_1","amo')],
    ['a 200 too large to read', reply(200, '', { body: null })],
    ['a 200 of another type', reply(200, intent('succeeded'), { contentType: 'text/html' })],
    ['a 200 without a type', reply(200, intent('succeeded'), { contentType: null })],
    ['a 200 that is no intent', reply(200, { object: 'list', data: [] })],
    ['a 204', reply(204, '')],
    ['a redirect', reply(302, intent('succeeded'))],
    ['a 500', refusal(500, { type: 'api_error' })],
    ['a 503', reply(503, 'busy')],
    ['a 409', refusal(409, { type: 'invalid_request_error', code: 'idempotency_key_in_use' })],
    ['a 429', refusal(429, { type: 'invalid_request_error', code: 'lock_timeout' })],
    ['an idempotency_error', refusal(400, { type: 'idempotency_error' })],
    ['an unreadable 400', reply(400, '<html>')],
    ['an unreadable 401', reply(401, '')],
    ['an unreadable 402', reply(402, 'pay your bill')],
    ['a 402 of another kind', refusal(402, { type: 'invalid_request_error' })],
    ['a 408', refusal(408, { type: 'invalid_request_error' })],
    ['a 424', refusal(424, { type: 'api_error' })],
    ['an api_error as 400', refusal(400, { type: 'api_error' })],
    [
      'a refusal for a state it does not show',
      refusal(400, { type: 'invalid_request_error', code: 'payment_intent_unexpected_state' }),
    ],
  ] as const)('holds on %s, resolving nothing', (_name, answer) => {
    for (const asked of [CREATE, CONFIRM]) {
      expect(judgeReply(asked, answer)).toMatchObject({
        to: 'held',
        resolves: 'nothing',
        mismatch: null,
      });
    }
  });

  it('releases on a decline, for every send of its key', () => {
    const decline = refusal(402, {
      type: 'card_error',
      code: 'card_declined',
      decline_code: 'insufficient_funds',
    });
    expect(short(CONFIRM, decline)).toBe('released key insufficient_funds');
    expect(short({ ...CREATE, object: 'charge' }, decline)).toBe('released key insufficient_funds');
  });

  it.each([400, 401, 403, 404])(
    'releases what a definite %i refused, for this send alone',
    (status) => {
      const no = { type: 'invalid_request_error', code: 'some_code' };
      expect(short(CREATE, refusal(status, no))).toBe('released send some_code');
      expect(short(CREATE, refusal(status, no, { replayed: true }))).toBe('released key some_code');
    },
  );

  it.each([
    ['succeeded', 'spent key succeeded'],
    ['processing', 'held nothing processing'],
    ['requires_capture', 'held nothing requires_capture'],
    ['canceled', 'released key canceled'],
    ['requires_payment_method', 'released send payment_intent_unexpected_state'],
  ])('reads the intent in a refusal for its state: %s', (status, expected) => {
    const error = {
      type: 'invalid_request_error',
      code: 'payment_intent_unexpected_state',
      payment_intent: intent(status),
    };
    expect(short(CONFIRM, refusal(400, error))).toBe(expected);
  });

  it('releases nothing when a capture or a cancel is refused or declined', () => {
    for (const kind of ['capture', 'cancel'] as const) {
      const asked = { ...CONFIRM, kind };
      expect(judgeReply(asked, refusal(402, { type: 'card_error' })).to).toBe('held');
      expect(judgeReply(asked, refusal(400, { type: 'invalid_request_error' })).to).toBe('held');
      expect(judgeReply(asked, refusal(404, { type: 'invalid_request_error' })).to).toBe('held');
    }
  });

  it('leaves nothing open after a cancel, which takes no money whatever became of it', () => {
    const asked = { ...CONFIRM, kind: 'cancel' } as const;
    expect(short(asked, { kind: 'lost', reason: 'econnreset' })).toBe('held send econnreset');
    expect(short(asked, refusal(500, { type: 'api_error' }))).toBe('held send http_500');
    expect(short(asked, reply(200, intent('processing')))).toBe('held send processing');
    expect(short(asked, reply(200, intent('canceled')))).toBe('released key canceled');
  });

  it('settles a charge that was captured, and holds one that is pending or only authorised', () => {
    const asked: Asked = { ...CREATE, object: 'charge' };
    const charge = (more: object) =>
      reply(200, { ...intent('succeeded'), object: 'charge', id: 'ch_1', ...more });
    expect(judgeReply(asked, charge({ captured: true }))).toMatchObject({
      to: 'spent',
      objectId: 'ch_1',
    });
    expect(judgeReply(asked, charge({ captured: false }))).toMatchObject({
      to: 'held',
      resolves: 'nothing',
    });
    expect(judgeReply(asked, charge({ status: 'pending' }))).toMatchObject({
      to: 'held',
      resolves: 'nothing',
    });
  });

  it('settles by a read that shows the asked intent succeeded, and by no other read', () => {
    const read: Asked = { ...CONFIRM, kind: 'read', amountMinor: null, currency: null };
    expect(judgeReply(read, reply(200, intent('succeeded'))).to).toBe('spent');
    expect(judgeReply(read, reply(200, intent('succeeded', { id: 'pi_2' }))).to).toBe('held');
    expect(judgeReply(read, reply(200, intent('canceled'))).to).toBe('held');
    expect(judgeReply({ ...read, object: null }, reply(200, intent('succeeded'))).to).toBe('held');
  });

  it('never releases or settles without a readable word of Stripe, whatever comes', () => {
    const words = fc.constantFrom(
      'succeeded',
      'canceled',
      'processing',
      'requires_confirmation',
      'x',
    );
    const body = fc.oneof(
      fc.string(),
      fc.json(),
      words.map((status) => JSON.stringify(intent(status))),
      fc
        .tuple(
          fc.constantFrom(
            'card_error',
            'idempotency_error',
            'api_error',
            'invalid_request_error',
            'x',
          ),
          words,
        )
        .map(([type, status]) =>
          JSON.stringify({ error: { type, payment_intent: intent(status) } }),
        ),
    );
    const kinds = fc.constantFrom('create', 'confirm', 'cancel', 'capture', 'plain', 'read');
    fc.assert(
      fc.property(kinds, fc.integer({ min: 200, max: 599 }), body, (kind, status, text) => {
        const judgement = judgeReply(
          { ...CONFIRM, kind, stripeCustomer: null },
          reply(status, text),
        );
        const { to, resolves } = judgement;
        const word = {
          spent: /"succeeded"/,
          released: /card_error|invalid_request_error|canceled|"type":"x"/,
          held: /^/,
        }[to];
        expect(text).toMatch(word);
        const unknown = status >= 500 || status === 409 || status === 429;
        const open = kind === 'cancel' ? 'send' : 'nothing';
        expect(unknown && (to !== 'held' || resolves !== open)).toBe(false);
        expect(kind === 'plain' && to !== 'held').toBe(false);
      }),
      { numRuns: 3_000 },
    );
  });
});
