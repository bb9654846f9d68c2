import { ApiError, badParameter } from './errors.ts';
import { declineFor, isDisputed, paymentMethodFixture } from './fixtures.ts';
import type { Behaviour, Decline } from './fixtures.ts';
import { newId } from './ids.ts';
import type { ChargeRecord, ConfirmOrder, IntentRecord, Origin } from './records.ts';
import { renderIntent } from './render.ts';
import type { Store, Tenant } from './store.ts';
import type { VirtualClock } from './clock.ts';

/** Where the machine works: one tenant's objects, the clock, and the request that caused the step. */
export interface Stage {
  readonly store: Store;
  readonly tenant: Tenant;
  readonly clock: VirtualClock;
  readonly origin: Origin;
}

const CONFIRMABLE = new Set([
  'requires_payment_method',
  'requires_confirmation',
  'requires_action',
]);
const CANCELABLE = new Set([...CONFIRMABLE, 'requires_capture', 'processing']);

/** The intent's status forbids what was asked; nothing changed. */
function unexpectedState(stage: Stage, intent: IntentRecord, message: string): ApiError {
  return new ApiError(400, {
    type: 'invalid_request_error',
    code: 'payment_intent_unexpected_state',
    message,
    payment_intent: renderIntent(stage.tenant, intent),
  });
}

/** Throws unless the intent may be confirmed; so an intent that has succeeded can never be charged again. */
export function assertConfirmable(stage: Stage, intent: IntentRecord): void {
  if (CONFIRMABLE.has(intent.status)) return;
  throw unexpectedState(
    stage,
    intent,
    `You cannot confirm this PaymentIntent because it has a status of ${intent.status}.`,
  );
}

/** Charges the intent once. Returns it in its new state, or throws the 402 after having recorded the decline. */
export function confirmIntent(
  stage: Stage,
  intent: IntentRecord,
  order: ConfirmOrder,
): IntentRecord {
  assertConfirmable(stage, intent);
  const behaviour: Behaviour =
    order.forcedDecline === null
      ? (paymentMethodFixture(order.paymentMethod)?.behaviour ?? { kind: 'succeed' })
      : { kind: 'decline', decline: order.forcedDecline };
  if (behaviour.kind === 'succeed') return succeed(stage, intent, order);
  if (behaviour.kind === 'authenticate') return authenticate(stage, intent, order);
  if (behaviour.kind === 'process') return startProcessing(stage, intent, { ...order, behaviour });
  return refuse(stage, intent, { ...order, decline: behaviour.decline });
}

function succeed(stage: Stage, intent: IntentRecord, order: ConfirmOrder): IntentRecord {
  const manual = intent.captureMethod === 'manual';
  const charge = newCharge(stage, intent, order.paymentMethod);
  const done: ChargeRecord = { ...charge, captured: !manual, status: 'succeeded' };
  const next: IntentRecord = {
    ...intent,
    status: manual ? 'requires_capture' : 'succeeded',
    paymentMethod: order.paymentMethod,
    latestCharge: done.id,
    lastError: null,
    pending: null,
  };
  saveCharge(stage, done, 'charge.succeeded');
  saveIntent(
    stage,
    next,
    manual ? 'payment_intent.amount_capturable_updated' : 'payment_intent.succeeded',
  );
  return next;
}

function refuse(
  stage: Stage,
  intent: IntentRecord,
  order: ConfirmOrder & { readonly decline: Decline },
): never {
  const { decline } = order;
  const charge: ChargeRecord = {
    ...newCharge(stage, intent, order.paymentMethod),
    status: 'failed',
    captured: false,
    decline,
  };
  saveCharge(stage, charge, 'charge.failed');
  const next = recordDecline(stage, intent, charge);
  throw new ApiError(402, {
    type: 'card_error',
    ...(decline.adviceCode === null ? {} : { advice_code: decline.adviceCode }),
    charge: charge.id,
    code: decline.code,
    decline_code: decline.declineCode,
    message: decline.message,
    ...(decline.networkDeclineCode === null
      ? {}
      : { network_decline_code: decline.networkDeclineCode }),
    payment_intent: renderIntent(stage.tenant, next),
  });
}

function recordDecline(stage: Stage, intent: IntentRecord, charge: ChargeRecord): IntentRecord {
  const decline = charge.decline ?? declineFor('generic_decline');
  const next: IntentRecord = {
    ...intent,
    status: 'requires_payment_method',
    // As at Stripe: the refused method is detached from the intent, the next confirm must name one.
    paymentMethod: null,
    latestCharge: charge.id,
    lastError: { decline, paymentMethod: charge.paymentMethod, charge: charge.id },
    pending: null,
  };
  saveIntent(stage, next, 'payment_intent.payment_failed');
  return next;
}

function authenticate(stage: Stage, intent: IntentRecord, order: ConfirmOrder): IntentRecord {
  if (order.offSession || order.errorOnRequiresAction) {
    return refuse(stage, intent, { ...order, decline: declineFor('authentication_required') });
  }
  const next: IntentRecord = {
    ...intent,
    status: 'requires_action',
    paymentMethod: order.paymentMethod,
    pending: null,
  };
  saveIntent(stage, next, 'payment_intent.requires_action');
  return next;
}

function startProcessing(
  stage: Stage,
  intent: IntentRecord,
  order: ConfirmOrder & { readonly behaviour: Extract<Behaviour, { kind: 'process' }> },
): IntentRecord {
  const charge: ChargeRecord = {
    ...newCharge(stage, intent, order.paymentMethod),
    status: 'pending',
  };
  const { afterMs, ends } = order.behaviour;
  const next: IntentRecord = {
    ...intent,
    status: 'processing',
    paymentMethod: order.paymentMethod,
    latestCharge: charge.id,
    lastError: null,
    pending: { kind: 'settle', atMs: stage.clock.nowMs() + afterMs, ends },
  };
  saveCharge(stage, charge, 'charge.pending');
  saveIntent(stage, next, 'payment_intent.processing');
  return next;
}

/** Ends a `processing` intent when its time has come. Called again, or for another state, it does nothing. */
export function settleIntent(
  stage: Stage,
  intent: IntentRecord,
  ends: 'succeeded' | Decline,
): void {
  const charge =
    intent.latestCharge === null ? undefined : stage.tenant.charges.get(intent.latestCharge);
  if (intent.status !== 'processing' || charge === undefined) return;
  if (ends === 'succeeded') {
    saveCharge(stage, { ...charge, status: 'succeeded', captured: true }, 'charge.succeeded');
    saveIntent(
      stage,
      { ...intent, status: 'succeeded', pending: null },
      'payment_intent.succeeded',
    );
    return;
  }
  const failed: ChargeRecord = { ...charge, status: 'failed', captured: false, decline: ends };
  saveCharge(stage, failed, 'charge.failed');
  recordDecline(stage, intent, failed);
}

/** Cancels an intent that is not final. */
export function cancelIntent(
  stage: Stage,
  intent: IntentRecord,
  reason: string | null,
): IntentRecord {
  if (!CANCELABLE.has(intent.status) || intent.status === 'processing') {
    throw unexpectedState(
      stage,
      intent,
      `You cannot cancel this PaymentIntent because it has a status of ${intent.status}.`,
    );
  }
  const next: IntentRecord = {
    ...intent,
    status: 'canceled',
    canceledAt: stage.clock.nowSeconds(),
    cancellationReason: reason,
    pending: null,
  };
  saveIntent(stage, next, 'payment_intent.canceled');
  return next;
}

/** The payment method a confirm will use, which must exist. */
export function paymentMethodForConfirm(
  stage: Stage,
  intent: IntentRecord,
  asked: string | undefined,
): string {
  const id = asked ?? intent.paymentMethod;
  if (id === null) {
    throw unexpectedState(
      stage,
      intent,
      "You cannot confirm this PaymentIntent because it's missing a payment method. " +
        'Update it with a payment method and confirm again.',
    );
  }
  return id;
}

/** Refuses an amount of a refund or another number the object does not allow. */
export function assertRefundable(charge: ChargeRecord, amount: number): void {
  const left = charge.amount - charge.amountRefunded;
  if (charge.status !== 'succeeded')
    throw badParameter('charge', `Charge ${charge.id} is not paid.`);
  if (isDisputed(charge)) {
    throw badParameter(
      'charge',
      `Charge ${charge.id} has been charged back; cannot issue a refund.`,
      'charge_disputed',
    );
  }
  if (left === 0) {
    throw badParameter(
      'charge',
      `Charge ${charge.id} has already been refunded.`,
      'charge_already_refunded',
    );
  }
  if (amount > left) {
    throw badParameter(
      'amount',
      `Refund amount (${amount}) is greater than unrefunded amount (${left}).`,
    );
  }
}

function newCharge(stage: Stage, intent: IntentRecord, paymentMethod: string): ChargeRecord {
  return {
    id: newId('ch'),
    created: stage.clock.nowSeconds(),
    metadata: intent.metadata,
    amount: intent.amount,
    amountRefunded: 0,
    currency: intent.currency,
    customer: intent.customer,
    intent: intent.id,
    paymentMethod,
    description: intent.description,
    receiptEmail: intent.receiptEmail,
    captured: true,
    status: 'succeeded',
    decline: null,
  };
}

function saveCharge(stage: Stage, record: ChargeRecord, type: string): void {
  stage.store.save(stage.tenant, { of: 'charge', record }, { type, origin: stage.origin });
}

/** Saves an intent and tells of it. */
export function saveIntent(stage: Stage, record: IntentRecord, type?: string): void {
  const news = type === undefined ? undefined : { type, origin: stage.origin };
  stage.store.save(stage.tenant, { of: 'payment_intent', record }, news);
}
