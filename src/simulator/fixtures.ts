/** Why a bank said no, as the API reports it. */
export interface Decline {
  readonly code: string;
  readonly declineCode: string;
  readonly adviceCode: string | null;
  readonly networkDeclineCode: string | null;
  readonly message: string;
}

/** What happens when a payment method is charged. */
export type Behaviour =
  | { readonly kind: 'succeed' }
  | { readonly kind: 'decline'; readonly decline: Decline }
  | { readonly kind: 'authenticate' }
  | { readonly kind: 'process'; readonly afterMs: number; readonly ends: 'succeeded' | Decline };

export interface PaymentMethodFixture {
  readonly type: 'card' | 'us_bank_account';
  readonly brand: string;
  readonly last4: string;
  readonly behaviour: Behaviour;
}

type Advice = 'try_again_later' | 'confirm_card_data' | 'do_not_try_again' | null;

// decline code → [advice code, network decline code]: https://docs.stripe.com/declines/codes
const DECLINES = new Map<string, [Advice, string | null]>(
  Object.entries({
    generic_decline: [null, '05'],
    insufficient_funds: ['try_again_later', '51'],
    approve_with_id: ['try_again_later', '01'],
    issuer_not_available: ['try_again_later', '91'],
    processing_error: ['try_again_later', null],
    reenter_transaction: ['try_again_later', '19'],
    try_again_later: ['try_again_later', '96'],
    card_decline_rate_limit_exceeded: ['try_again_later', null],
    card_velocity_exceeded: ['try_again_later', '65'],
    expired_card: ['confirm_card_data', '54'],
    incorrect_number: ['confirm_card_data', '14'],
    incorrect_cvc: ['confirm_card_data', '82'],
    invalid_account: ['confirm_card_data', '14'],
    lost_card: ['confirm_card_data', '41'],
    stolen_card: ['confirm_card_data', '43'],
    pickup_card: ['confirm_card_data', '04'],
    restricted_card: ['confirm_card_data', '62'],
    fraudulent: ['do_not_try_again', '59'],
    merchant_blacklist: ['do_not_try_again', null],
    stop_payment_order: ['do_not_try_again', 'R0'],
    revocation_of_authorization: ['do_not_try_again', 'R1'],
    revocation_of_all_authorizations: ['do_not_try_again', 'R3'],
    testmode_decline: ['do_not_try_again', null],
    do_not_try_again: ['do_not_try_again', '05'],
    authentication_required: [null, '1A'],
    duplicate_transaction: [null, '94'],
  }),
);

// These decline codes are also the error's `code`; all others come as `card_declined`.
const CODE_OF_ITS_OWN = new Set([
  'expired_card',
  'incorrect_cvc',
  'incorrect_number',
  'processing_error',
  'authentication_required',
]);

/** The decline with this code; an unknown code is declined without advice. */
export function declineFor(declineCode: string): Decline {
  const [adviceCode, networkDeclineCode] = DECLINES.get(declineCode) ?? [null, null];
  return {
    code: CODE_OF_ITS_OWN.has(declineCode) ? declineCode : 'card_declined',
    declineCode,
    adviceCode,
    networkDeclineCode,
    message: `Your card was declined (${declineCode.replaceAll('_', ' ')}).`,
  };
}

// Stripe's names, without `pm_card_` or `pm_card_visa_`: https://docs.stripe.com/testing
const CARD_DECLINES = new Map<string, string>(
  Object.entries({
    chargeDeclined: 'generic_decline',
    chargeDeclinedInsufficientFunds: 'insufficient_funds',
    chargeDeclinedLostCard: 'lost_card',
    chargeDeclinedStolenCard: 'stolen_card',
    chargeDeclinedExpiredCard: 'expired_card',
    chargeDeclinedIncorrectCvc: 'incorrect_cvc',
    chargeDeclinedProcessingError: 'processing_error',
    chargeDeclinedVelocityLimitExceeded: 'card_velocity_exceeded',
    chargeDeclinedFraudulent: 'fraudulent',
    chargeDeclinedDuplicateTransaction: 'duplicate_transaction',
    chargeDeclinedDoNotTryAgain: 'do_not_try_again',
    chargeCustomerFail: 'generic_decline',
  }),
);
const AUTHENTICATE = new Set([
  'authenticationRequired',
  'authenticationRequiredOnSetup',
  'threeDSecureRequired',
  'threeDSecure2Required',
]);
const BRANDS = new Map<string, readonly [string, string]>(
  Object.entries({
    visa: ['visa', '4242'],
    visa_debit: ['visa', '5556'],
    mastercard: ['mastercard', '4444'],
    mastercard_debit: ['mastercard', '3222'],
    mastercard_prepaid: ['mastercard', '5100'],
    amex: ['amex', '8431'],
    discover: ['discover', '1117'],
    diners: ['diners', '0004'],
    jcb: ['jcb', '0505'],
    unionpay: ['unionpay', '0005'],
  }),
);
const PROCESSING_MS = 60_000;
const BANK_FAILURE: Decline = {
  code: 'payment_method_provider_decline',
  declineCode: 'insufficient_funds',
  adviceCode: null,
  networkDeclineCode: 'R01',
  message: 'The bank account has insufficient funds.',
};

function bank(behaviour: Behaviour): PaymentMethodFixture {
  return { type: 'us_bank_account', brand: 'checking', last4: '6789', behaviour };
}

const BANKS = new Map<string, PaymentMethodFixture>(
  Object.entries({
    pm_usBankAccount: bank({ kind: 'process', afterMs: PROCESSING_MS, ends: 'succeeded' }),
    pm_usBankAccount_success: bank({ kind: 'process', afterMs: PROCESSING_MS, ends: 'succeeded' }),
    pm_usBankAccount_processing: bank({
      kind: 'process',
      afterMs: PROCESSING_MS,
      ends: 'succeeded',
    }),
    pm_usBankAccount_insufficientFunds: bank({
      kind: 'process',
      afterMs: PROCESSING_MS,
      ends: BANK_FAILURE,
    }),
    pm_usBankAccount_processingFails: bank({
      kind: 'process',
      afterMs: PROCESSING_MS,
      ends: BANK_FAILURE,
    }),
  }),
);

function card(
  behaviour: Behaviour,
  [brand, last4]: readonly [string, string],
): PaymentMethodFixture {
  return { type: 'card', brand, last4, behaviour };
}

/** The card of Stripe's test names that pays, and whose owner disputes the charge at once. */
const DISPUTING_CARD = 'pm_card_createDispute';

/** A charge that the customer's bank has taken back, or is about to. */
export function isDisputed(charge: { readonly paymentMethod: string; readonly status: string }) {
  return charge.status === 'succeeded' && charge.paymentMethod === DISPUTING_CARD;
}

/**
 * What this payment method does. Stripe's test names behave as at Stripe, `pm_card_declined_<decline_code>` declines with
 * that code, `pm_missing…` does not exist (undefined), and any other well-formed id is a card that pays: real ids are opaque.
 */
export function paymentMethodFixture(id: string): PaymentMethodFixture | undefined {
  if (!/^(pm|card|src)_[A-Za-z0-9_]{1,200}$/.test(id) || id.startsWith('pm_missing'))
    return undefined;
  const bankAccount = BANKS.get(id);
  if (bankAccount !== undefined) return bankAccount;
  const visa = ['visa', '4242'] as const;
  const name = id.replace(/^pm_card_/, '');
  const brand = BRANDS.get(name);
  if (brand !== undefined) return card({ kind: 'succeed' }, brand);
  const short = name.replace(/^visa_/, '');
  const coded = /^declined_([a-z_]+)$/.exec(name)?.[1] ?? CARD_DECLINES.get(short);
  if (coded !== undefined) {
    return card({ kind: 'decline', decline: declineFor(coded) }, ['visa', '0002']);
  }
  if (AUTHENTICATE.has(short)) return card({ kind: 'authenticate' }, ['visa', '3155']);
  return card({ kind: 'succeed' }, visa);
}
