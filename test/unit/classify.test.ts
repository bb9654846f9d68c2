import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { classifyRefusal, declineAdvice, type Verdict } from '../../src/payments/classify.ts';
import type { Refusal } from '../../src/payments/gateway.ts';

const refusal = (parts: Partial<Refusal>): Refusal => ({
  status: 400,
  type: 'invalid_request_error',
  code: null,
  declineCode: null,
  adviceCode: null,
  message: 'said by Stripe',
  shouldRetry: null,
  retryAfterMs: null,
  paymentIntent: null,
  ...parts,
});

/** stripe-facts §3 and §5: what came back → what it means. */
const REPLIES: readonly [string, Partial<Refusal>, Partial<Verdict>][] = [
  [
    '400 for a parameter',
    { code: 'parameter_invalid_integer' },
    { kind: 'misconfigured', reason: 'parameter_invalid_integer', stopsRun: false },
  ],
  [
    '400 without a code',
    {},
    { kind: 'misconfigured', reason: 'invalid_request_error', stopsRun: false },
  ],
  [
    '400 for an amount below the minimum',
    { code: 'amount_too_small' },
    { kind: 'misconfigured', reason: 'amount_too_small', stopsRun: false },
  ],
  [
    'A4: 400 for a key that was used with other parameters',
    { type: 'idempotency_error' },
    { kind: 'indeterminate', reason: 'idempotency_error', sameKeyMayHelp: false },
  ],
  [
    '404 for a key that was used elsewhere',
    { status: 404, type: 'idempotency_error' },
    { kind: 'indeterminate', sameKeyMayHelp: false },
  ],
  ['401', { status: 401 }, { kind: 'misconfigured', reason: 'api_key_refused', stopsRun: true }],
  [
    '402 for a card',
    { status: 402, type: 'card_error', code: 'card_declined', declineCode: 'generic_decline' },
    { kind: 'declined', reason: 'generic_decline' },
  ],
  [
    '402 for a card without a code',
    { status: 402, type: 'card_error' },
    { kind: 'declined', reason: 'card_declined' },
  ],
  [
    '402 when the customer must authenticate',
    { status: 402, type: 'card_error', code: 'authentication_required' },
    { kind: 'declined', reason: 'authentication_required', advice: 'customer_action' },
  ],
  [
    '402 for a duplicate of another payment',
    {
      status: 402,
      type: 'card_error',
      code: 'card_declined',
      declineCode: 'duplicate_transaction',
    },
    { kind: 'indeterminate', reason: 'duplicate_transaction', sameKeyMayHelp: false },
  ],
  [
    '402 that is no card error, as a proxy says it whose own bill is unpaid',
    { status: 402, type: 'Payment Required' },
    { kind: 'indeterminate', reason: 'http_402', sameKeyMayHelp: false },
  ],
  [
    '402 without a type',
    { status: 402, type: null },
    { kind: 'indeterminate', reason: 'http_402', sameKeyMayHelp: false },
  ],
  [
    "402 of the vault's own type",
    { status: 402, type: 'vault_error', code: 'cap_exceeded' },
    { kind: 'blocked', reason: 'cap_exceeded' },
  ],
  [
    "403 of the vault's own type",
    { status: 403, type: 'vault_error', code: 'endpoint_refused' },
    { kind: 'misconfigured', reason: 'endpoint_refused', stopsRun: false },
  ],
  ...[
    'endpoint_not_allowed',
    'period_mismatch',
    'vault_key_revoked',
    'vault_cap_differs',
    'run_not_planned',
  ].map((code): [string, Partial<Refusal>, Partial<Verdict>] => [
    `the vault's ${code}, which every other customer of the run would hear too`,
    { status: code === 'run_not_planned' ? 404 : 409, type: 'vault_error', code },
    { kind: 'blocked', reason: code },
  ]),
  ...['vault_key_closed', 'vault_key_unknown', 'token_wrong'].map(
    (code): [string, Partial<Refusal>, Partial<Verdict>] => [
      `the vault's ${code}, which another attempt mends`,
      { status: code === 'vault_key_closed' ? 403 : 401, type: 'vault_error', code },
      { kind: 'notExecuted', reason: code, retryAfterMs: null },
    ],
  ),
  ...['idempotency_key_reused', 'idempotency_key_too_old'].map(
    (code): [string, Partial<Refusal>, Partial<Verdict>] => [
      `the vault's ${code}, under which something was sent before`,
      { status: 409, type: 'vault_error', code },
      { kind: 'indeterminate', reason: code, sameKeyMayHelp: false },
    ],
  ),
  [
    "401 of the vault's own type",
    { status: 401, type: 'vault_error' },
    { kind: 'blocked', reason: 'vault_401' },
  ],
  [
    "429 of the vault's own type",
    { status: 429, type: 'vault_error', retryAfterMs: 500 },
    { kind: 'notExecuted', reason: 'vault_busy', retryAfterMs: 500 },
  ],
  [
    "408 of the vault's own type, which says that the request was not whole",
    { status: 408, type: 'vault_error', code: 'request_timeout' },
    { kind: 'notExecuted', reason: 'vault_408', retryAfterMs: null },
  ],
  [
    "500 of the vault's own type",
    { status: 500, type: 'vault_error' },
    { kind: 'indeterminate', reason: 'vault_500', sameKeyMayHelp: true },
  ],
  [
    "503 of the vault's own type",
    { status: 503, type: 'vault_error', retryAfterMs: 2_000 },
    { kind: 'notExecuted', reason: 'vault_unavailable', retryAfterMs: 2_000 },
  ],
  [
    '403 for missing rights',
    { status: 403, code: 'more_permissions_required' },
    { kind: 'misconfigured', stopsRun: true },
  ],
  [
    '404 for an unknown object',
    { status: 404, code: 'resource_missing' },
    { kind: 'misconfigured', reason: 'resource_missing' },
  ],
  [
    'F1: 409 while the first call runs',
    { status: 409, code: 'idempotency_key_in_use' },
    { kind: 'notExecuted', reason: 'idempotency_key_in_use' },
  ],
  [
    'F2: 409 in use, even if Stripe says not to retry',
    { status: 409, code: 'idempotency_key_in_use', shouldRetry: false },
    { kind: 'notExecuted' },
  ],
  ['409 for another conflict', { status: 409 }, { kind: 'notExecuted', reason: 'conflict' }],
  [
    '409 for another conflict that a retry cannot change',
    { status: 409, shouldRetry: false },
    { kind: 'indeterminate', reason: 'conflict', sameKeyMayHelp: false },
  ],
  [
    '424',
    { status: 424 },
    { kind: 'indeterminate', reason: 'dependency_failed', sameKeyMayHelp: false },
  ],
  [
    '429 for the rate',
    { status: 429, code: 'rate_limit', retryAfterMs: 1_000 },
    { kind: 'notExecuted', reason: 'rate_limited', retryAfterMs: 1_000 },
  ],
  [
    'O6: 429 for a locked object',
    { status: 429, type: null, code: 'lock_timeout' },
    { kind: 'notExecuted', reason: 'lock_timeout' },
  ],
  [
    'E11: 500',
    { status: 500, type: 'api_error' },
    { kind: 'indeterminate', reason: 'server_error_500', sameKeyMayHelp: false },
  ],
  [
    '500, even if Stripe says to retry',
    { status: 500, type: 'api_error', shouldRetry: true },
    { kind: 'indeterminate', sameKeyMayHelp: false },
  ],
  [
    '502',
    { status: 502, type: null },
    { kind: 'indeterminate', reason: 'server_error_502', sameKeyMayHelp: true },
  ],
  [
    '503',
    { status: 503, type: null },
    { kind: 'indeterminate', reason: 'server_error_503', sameKeyMayHelp: true },
  ],
  [
    '504 that Stripe says not to retry',
    { status: 504, type: null, shouldRetry: false },
    { kind: 'indeterminate', reason: 'server_error_504', sameKeyMayHelp: false },
  ],
  ['a redirect', { status: 302, type: null }, { kind: 'indeterminate', sameKeyMayHelp: false }],
];

/** stripe-facts §8: decline code → advice. */
const DECLINES: Readonly<Record<string, readonly string[]>> = {
  try_again_later: [
    'approve_with_id',
    'issuer_not_available',
    'processing_error',
    'reenter_transaction',
    'try_again_later',
    'insufficient_funds',
    'card_decline_rate_limit_exceeded',
  ],
  needs_new_card: [
    'expired_card',
    'incorrect_number',
    'invalid_account',
    'lost_card',
    'stolen_card',
    'pickup_card',
    'restricted_card',
  ],
  customer_action: ['authentication_required'],
  never: [
    'fraudulent',
    'merchant_blacklist',
    'stop_payment_order',
    'revocation_of_authorization',
    'revocation_of_all_authorizations',
    'testmode_decline',
  ],
  no_automatic_rerun: ['generic_decline', 'do_not_honor', 'a_code_stripe_makes_up_tomorrow'],
};

describe('classifyRefusal', () => {
  it.each(REPLIES)('reads %s', (_what, given, expected) => {
    expect(classifyRefusal(refusal(given))).toMatchObject(expected);
  });

  it('B1: never reads the message', () => {
    for (const [, given] of REPLIES) {
      const plain = classifyRefusal(refusal(given));
      expect(
        classifyRefusal(refusal({ ...given, message: 'declined idempotency 500 charged' })),
      ).toEqual(plain);
    }
  });

  const anyRefusal = fc.record({
    status: fc.oneof(
      fc.constantFrom(400, 401, 402, 403, 404, 409, 424, 429, 500, 502, 503, 504),
      fc.integer({ min: 300, max: 599 }),
    ),
    type: fc.constantFrom(
      'card_error',
      'invalid_request_error',
      'idempotency_error',
      'api_error',
      'something_new',
      'vault_error',
      null,
    ),
    code: fc.constantFrom(
      'card_declined',
      'lock_timeout',
      'idempotency_key_in_use',
      'authentication_required',
      'x',
      null,
    ),
    declineCode: fc.constantFrom('insufficient_funds', 'duplicate_transaction', 'x', null),
    adviceCode: fc.constantFrom('do_not_try_again', 'try_again_later', 'confirm_card_data', null),
    message: fc.constantFrom('declined', null),
    shouldRetry: fc.constantFrom(true, false, null),
    retryAfterMs: fc.constantFrom(1_000, null),
    paymentIntent: fc.constant(null),
  });

  it('never ends a charge on a 409, 424, 429, 5xx or idempotency error', () => {
    fc.assert(
      fc.property(anyRefusal, (given) => {
        // What the vault says itself never reached Stripe; its 409 is about the request.
        const statuses = given.type === 'vault_error' ? [429] : [409, 424, 429];
        const open =
          statuses.includes(given.status) ||
          given.status >= 500 ||
          given.type === 'idempotency_error';
        const { kind } = classifyRefusal(given);
        expect(!open || kind === 'indeterminate' || kind === 'notExecuted').toBe(true);
      }),
      { numRuns: 20_000 },
    );
  });

  it('declines on a 402 for a card alone, and never on a duplicate', () => {
    fc.assert(
      fc.property(anyRefusal, (given) => {
        if (classifyRefusal(given).kind !== 'declined') return;
        expect(given.status).toBe(402);
        expect(given.type).toBe('card_error');
        expect(given.declineCode).not.toBe('duplicate_transaction');
      }),
      { numRuns: 20_000 },
    );
  });

  it('stops the run only when the API key is refused or lacks the right', () => {
    fc.assert(
      fc.property(anyRefusal, (given) => {
        const verdict = classifyRefusal(given);
        const stops = verdict.kind === 'misconfigured' && verdict.stopsRun;
        const missingRight = given.status === 403 && given.type !== 'vault_error';
        expect(!stops || given.status === 401 || missingRight).toBe(true);
      }),
      { numRuns: 5_000 },
    );
  });
});

describe('declineAdvice', () => {
  const rows = Object.entries(DECLINES).flatMap(([advice, codes]) =>
    codes.map((code) => [code, advice] as const),
  );

  it.each(rows)('of %s is %s', (declineCode, advice) => {
    expect(declineAdvice({ code: 'card_declined', declineCode, adviceCode: null })).toBe(advice);
  });

  it.each([
    ['do_not_try_again', 'never'],
    ['confirm_card_data', 'needs_new_card'],
    ['try_again_later', 'try_again_later'],
  ])('prefers the advice code %s over the decline code', (adviceCode, advice) => {
    expect(
      declineAdvice({ code: 'card_declined', declineCode: 'generic_decline', adviceCode }),
    ).toBe(advice);
  });

  it('sends the customer to authenticate whatever else the bank advises', () => {
    expect(
      declineAdvice({
        code: 'authentication_required',
        declineCode: null,
        adviceCode: 'do_not_try_again',
      }),
    ).toBe('customer_action');
  });
});
