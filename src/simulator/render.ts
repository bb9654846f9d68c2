import { isDisputed, paymentMethodFixture } from './fixtures.ts';
import type {
  ChargeRecord,
  CustomerRecord,
  EventRecord,
  IntentRecord,
  RefundRecord,
  Snapshot,
} from './records.ts';
import {
  LAZY_CREATED,
  noAddress,
  renderChargedCard,
  renderPaymentMethod,
} from './render-payment-method.ts';
import type { Tenant } from './store.ts';

/** What `expand[]` asked for, seen from the object itself. */
export type Expansion = ReadonlySet<string>;
const NOTHING: Expansion = new Set();
const CARD_OPTIONS = {
  card: {
    installments: null,
    mandate_options: null,
    network: null,
    request_three_d_secure: 'automatic',
  },
};

/** A PaymentIntent as the API shows it. */
export function renderIntent(tenant: Tenant, intent: IntentRecord, expand = NOTHING): object {
  const charge = intent.latestCharge === null ? undefined : tenant.charges.get(intent.latestCharge);
  const paid = intent.status === 'succeeded';
  return {
    id: intent.id,
    object: 'payment_intent',
    allowed_payment_method_types: null,
    amount: intent.amount,
    amount_capturable: intent.status === 'requires_capture' ? intent.amount : 0,
    amount_details: { tip: {} },
    amount_received: paid ? intent.amount : 0,
    application: null,
    application_fee_amount: null,
    automatic_payment_methods: intent.automaticPaymentMethods
      ? { allow_redirects: 'always', enabled: true }
      : null,
    canceled_at: intent.canceledAt,
    cancellation_reason: intent.cancellationReason,
    capture_method: intent.captureMethod,
    client_secret: `${intent.id}_secret_${intent.id.slice(-16)}`,
    confirmation_method: intent.confirmationMethod,
    created: intent.created,
    currency: intent.currency,
    customer:
      expand.has('customer') && intent.customer !== null
        ? renderCustomer(tenant, customerOrLazy(tenant, intent.customer))
        : intent.customer,
    customer_account: null,
    description: intent.description,
    excluded_payment_method_types: null,
    last_payment_error: renderLastError(tenant, intent),
    latest_charge:
      expand.has('latest_charge') && charge !== undefined
        ? renderCharge(tenant, charge)
        : intent.latestCharge,
    livemode: tenant.livemode,
    managed_payments: null,
    metadata: intent.metadata,
    next_action:
      intent.status === 'requires_action'
        ? { type: 'use_stripe_sdk', use_stripe_sdk: { type: 'three_d_secure_redirect' } }
        : null,
    on_behalf_of: null,
    payment_method:
      expand.has('payment_method') && intent.paymentMethod !== null
        ? renderPaymentMethod(tenant, intent.paymentMethod, intent)
        : intent.paymentMethod,
    payment_method_configuration_details: null,
    payment_method_options: intent.paymentMethodTypes.includes('card') ? CARD_OPTIONS : {},
    payment_method_types: intent.paymentMethodTypes,
    payment_record: null,
    processing: null,
    receipt_email: intent.receiptEmail,
    review: null,
    setup_future_usage: intent.setupFutureUsage,
    shipping: null,
    source: null,
    statement_descriptor: intent.statementDescriptor,
    statement_descriptor_suffix: intent.statementDescriptorSuffix,
    status: intent.status,
    transfer_data: null,
    transfer_group: null,
  };
}

function renderLastError(tenant: Tenant, intent: IntentRecord): object | null {
  if (intent.lastError === null) return null;
  const { decline, paymentMethod, charge } = intent.lastError;
  return {
    ...(decline.adviceCode === null ? {} : { advice_code: decline.adviceCode }),
    ...(charge === null ? {} : { charge }),
    code: decline.code,
    decline_code: decline.declineCode,
    message: decline.message,
    ...(decline.networkDeclineCode === null
      ? {}
      : { network_decline_code: decline.networkDeclineCode }),
    payment_method: renderPaymentMethod(tenant, paymentMethod, intent),
    type: 'card_error',
  };
}

/** A Charge as the API shows it. */
export function renderCharge(tenant: Tenant, charge: ChargeRecord, expand = NOTHING): object {
  const intent = expand.has('payment_intent') ? tenant.intents.get(charge.intent) : undefined;
  const method = paymentMethodFixture(charge.paymentMethod);
  const isBank = method?.type === 'us_bank_account';
  return {
    id: charge.id,
    object: 'charge',
    amount: charge.amount,
    amount_captured: charge.captured && charge.status === 'succeeded' ? charge.amount : 0,
    amount_refunded: charge.amountRefunded,
    application: null,
    application_fee: null,
    application_fee_amount: null,
    balance_transaction: charge.status === 'succeeded' ? charge.id.replace('ch_', 'txn_') : null,
    billing_details: noAddress(),
    calculated_statement_descriptor: 'CHARGEONCE SIMULATOR',
    captured: charge.captured,
    created: charge.created,
    currency: charge.currency,
    customer: charge.customer,
    description: charge.description,
    disputed: isDisputed(charge),
    failure_balance_transaction: null,
    failure_code: charge.decline?.code ?? null,
    failure_message: charge.decline?.message ?? null,
    fraud_details: {},
    livemode: tenant.livemode,
    metadata: charge.metadata,
    on_behalf_of: null,
    outcome: renderOutcome(charge),
    paid: charge.status === 'succeeded',
    payment_intent: intent === undefined ? charge.intent : renderIntent(tenant, intent),
    payment_method: charge.paymentMethod,
    payment_method_details: isBank
      ? {
          type: 'us_bank_account',
          us_bank_account: { account_type: 'checking', last4: method.last4 },
        }
      : { type: 'card', card: renderChargedCard(method) },
    receipt_email: charge.receiptEmail,
    receipt_number: null,
    receipt_url: null,
    refunded: charge.amountRefunded === charge.amount,
    review: null,
    shipping: null,
    source: null,
    source_transfer: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: charge.status,
    transfer_data: null,
    transfer_group: null,
  };
}

function renderOutcome(charge: ChargeRecord): object {
  const { decline } = charge;
  return {
    advice_code: decline?.adviceCode ?? null,
    network_advice_code: null,
    network_decline_code: decline?.networkDeclineCode ?? null,
    network_status: decline === null ? 'approved_by_network' : 'declined_by_network',
    reason: decline?.declineCode ?? null,
    risk_level: 'normal',
    seller_message: decline === null ? 'Payment complete.' : 'The bank declined the payment.',
    type: decline === null ? 'authorized' : 'issuer_declined',
  };
}

/** A Refund as the API shows it. */
export function renderRefund(refund: RefundRecord): object {
  return {
    id: refund.id,
    object: 'refund',
    amount: refund.amount,
    balance_transaction: refund.id.replace('re_', 'txn_'),
    charge: refund.charge,
    created: refund.created,
    currency: refund.currency,
    destination_details: {
      card: { type: 'refund', reference_type: 'acquirer_reference_number' },
      type: 'card',
    },
    metadata: refund.metadata,
    payment_intent: refund.intent,
    reason: refund.reason,
    receipt_number: null,
    source_transfer_reversal: null,
    status: refund.status,
    transfer_reversal: null,
  };
}

/** A Customer as the API shows it. */
export function renderCustomer(tenant: Tenant, customer: CustomerRecord): object {
  return {
    id: customer.id,
    object: 'customer',
    address: null,
    balance: 0,
    created: customer.created,
    currency: null,
    default_source: null,
    delinquent: false,
    description: customer.description,
    discount: null,
    email: customer.email,
    invoice_prefix: customer.id.slice(-8).toUpperCase(),
    invoice_settings: {
      custom_fields: null,
      default_payment_method: customer.defaultPaymentMethod,
      footer: null,
      rendering_options: null,
    },
    livemode: tenant.livemode,
    metadata: customer.metadata,
    name: customer.name,
    next_invoice_sequence: 1,
    phone: null,
    preferred_locales: [],
    shipping: null,
    tax_exempt: 'none',
    test_clock: null,
  };
}

/** The customer with this id, or how one looks that exists without ever having been created here. */
export function customerOrLazy(tenant: Tenant, id: string): CustomerRecord {
  return (
    tenant.customers.get(id) ?? {
      id,
      created: LAZY_CREATED,
      metadata: {},
      email: null,
      name: null,
      description: null,
      defaultPaymentMethod: null,
    }
  );
}
/** An Event; its object is shown as it was when it happened. */
export function renderEvent(tenant: Tenant, event: EventRecord): object {
  return {
    id: event.id,
    object: 'event',
    api_version: event.origin.apiVersion,
    created: event.created,
    data: { object: renderSnapshot(tenant, event.object) },
    livemode: tenant.livemode,
    pending_webhooks: event.delivered ? 0 : 1,
    request: { id: event.origin.requestId, idempotency_key: event.origin.idempotencyKey },
    type: event.type,
  };
}

function renderSnapshot(tenant: Tenant, snapshot: Snapshot): object {
  if (snapshot.of === 'payment_intent') return renderIntent(tenant, snapshot.record);
  if (snapshot.of === 'charge') return renderCharge(tenant, snapshot.record);
  if (snapshot.of === 'refund') return renderRefund(snapshot.record);
  return renderCustomer(tenant, snapshot.record);
}
