import {
  assertCustomerExists,
  assertPaymentMethodExists,
  readExpansion,
  textOrNull,
} from './call.ts';
import type { Call, Route } from './call.ts';
import { badParameter, missing, serverError } from './errors.ts';
import { paymentMethodFixture } from './fixtures.ts';
import { newId } from './ids.ts';
import { LIST_PARAMS, listPage } from './lists.ts';
import {
  assertConfirmable,
  cancelIntent,
  confirmIntent,
  paymentMethodForConfirm,
  saveIntent,
} from './machine.ts';
import { readMetadata } from './metadata.ts';
import { readAmount, readCurrency } from './money.ts';
import type { ConfirmOrder, IntentRecord } from './records.ts';
import { renderIntent } from './render.ts';
import { searchPage } from './search.ts';

const EXPANDABLE = ['latest_charge', 'customer', 'payment_method'];
const CONFIRM_PARAMS = [
  'payment_method',
  'off_session',
  'error_on_requires_action',
  'return_url',
  'use_stripe_sdk',
  'mandate_data',
  'receipt_email',
  'setup_future_usage',
  'payment_method_options',
  'payment_method_types',
  'capture_method',
  'expand',
];
const CREATE_PARAMS = [
  ...CONFIRM_PARAMS,
  'amount',
  'currency',
  'customer',
  'automatic_payment_methods',
  'metadata',
  'description',
  'confirm',
  'confirmation_method',
  'statement_descriptor',
  'statement_descriptor_suffix',
];
const FUTURE_USAGE = ['off_session', 'on_session'] as const;

function create(call: Call): () => object {
  const { params } = call;
  params.onlyKnown(new Set(CREATE_PARAMS));
  const expand = readExpansion(call, EXPANDABLE);
  const confirm = params.boolean('confirm') ?? false;
  if (!confirm) {
    for (const name of ['off_session', 'error_on_requires_action', 'mandate_data']) {
      if (params.has(name) && params.get(name) !== '') {
        throw badParameter(name, `You can only set \`${name}\` when \`confirm=true\`.`);
      }
    }
  }
  const draft = readDraft(call);
  return () => {
    if (draft.customer !== null) assertCustomerExists(call, draft.customer);
    if (draft.paymentMethod !== null) assertPaymentMethodExists(draft.paymentMethod);
    const intent: IntentRecord = { ...draft, id: newId('pi'), created: call.clock.nowSeconds() };
    saveIntent(call, intent, 'payment_intent.created');
    if (!confirm) return renderIntent(call.tenant, intent, expand);
    return renderIntent(call.tenant, confirmNow(call, intent), expand);
  };
}

function readDraft(call: Call): Omit<IntentRecord, 'id' | 'created'> {
  const { params, origin } = call;
  const currency = readCurrency(params.get('currency'));
  const amount = readAmount(params.get('amount'), currency);
  const paymentMethod = textOrNull(params.get('payment_method'));
  const types = params.list('payment_method_types');
  return {
    amount,
    currency,
    metadata: readMetadata(params),
    customer: textOrNull(params.get('customer')),
    paymentMethod,
    paymentMethodTypes: types.length > 0 ? types : defaultTypes(paymentMethod),
    automaticPaymentMethods: types.length === 0,
    status: paymentMethod === null ? 'requires_payment_method' : 'requires_confirmation',
    description: textOrNull(params.get('description')),
    captureMethod:
      params.oneOf('capture_method', ['automatic', 'automatic_async', 'manual']) ??
      'automatic_async',
    confirmationMethod: params.oneOf('confirmation_method', ['automatic', 'manual']) ?? 'automatic',
    setupFutureUsage: params.oneOf('setup_future_usage', FUTURE_USAGE) ?? null,
    receiptEmail: textOrNull(params.get('receipt_email')),
    statementDescriptor: textOrNull(params.get('statement_descriptor')),
    statementDescriptorSuffix: textOrNull(params.get('statement_descriptor_suffix')),
    latestCharge: null,
    lastError: null,
    canceledAt: null,
    cancellationReason: null,
    pending: null,
    keys: origin.idempotencyKey === null ? [] : [origin.idempotencyKey],
  };
}

function defaultTypes(paymentMethod: string | null): string[] {
  const type = paymentMethod === null ? 'card' : paymentMethodFixture(paymentMethod)?.type;
  return type === undefined || type === 'card' ? ['card'] : ['card', type];
}

function confirm(call: Call): () => object {
  const { params } = call;
  params.onlyKnown(new Set(CONFIRM_PARAMS));
  const expand = readExpansion(call, EXPANDABLE);
  readConfirmFlags(call);
  params.oneOf('setup_future_usage', FUTURE_USAGE);
  return () => {
    const intent = withKey(call, findIntent(call));
    const done = confirmNow(call, {
      ...intent,
      receiptEmail: textOrNull(params.get('receipt_email')) ?? intent.receiptEmail,
      setupFutureUsage: params.oneOf('setup_future_usage', FUTURE_USAGE) ?? intent.setupFutureUsage,
    });
    return renderIntent(call.tenant, done, expand);
  };
}

function readConfirmFlags(call: Call): { offSession: boolean; errorOnRequiresAction: boolean } {
  const offSession = call.params.get('off_session');
  return {
    // Older integrations send `one_off` or `recurring`, which mean the same for the outcome.
    offSession:
      offSession === 'one_off' || offSession === 'recurring'
        ? true
        : (call.params.boolean('off_session') ?? false),
    errorOnRequiresAction: call.params.boolean('error_on_requires_action') ?? false,
  };
}

function confirmNow(call: Call, intent: IntentRecord): IntentRecord {
  assertConfirmable(call, intent);
  const asked = textOrNull(call.params.get('payment_method')) ?? undefined;
  const paymentMethod = paymentMethodForConfirm(call, intent, asked);
  assertPaymentMethodExists(paymentMethod);
  const { twist } = call;
  const order: ConfirmOrder = {
    paymentMethod,
    ...readConfirmFlags(call),
    forcedDecline: twist.decline,
  };
  twist.used = true;
  if (twist.lateMs === null) return confirmIntent(call, intent, order);
  // What the client can see stays as it was: only the event will tell.
  saveIntent(call, {
    ...intent,
    pending: {
      kind: 'lateConfirm',
      atMs: call.clock.nowMs() + twist.lateMs,
      order,
      origin: call.origin,
    },
  });
  throw serverError();
}

function update(call: Call): () => object {
  const { params } = call;
  params.onlyKnown(
    new Set([
      'amount',
      'currency',
      'customer',
      'payment_method',
      'metadata',
      'description',
      'expand',
    ]),
  );
  const expand = readExpansion(call, EXPANDABLE);
  readMetadata(params);
  return () => {
    const intent = withKey(call, findIntent(call));
    const money = ['amount', 'currency', 'customer', 'payment_method'].some((name) =>
      params.has(name),
    );
    if (money) assertConfirmable(call, intent);
    const currency = params.has('currency')
      ? readCurrency(params.get('currency'))
      : intent.currency;
    const paymentMethod = textOrNull(params.get('payment_method'));
    if (paymentMethod !== null) assertPaymentMethodExists(paymentMethod);
    const customer = textOrNull(params.get('customer'));
    if (customer !== null && customer !== intent.customer) {
      throw badParameter(
        'customer',
        'The simulator does not move a PaymentIntent to another customer.',
      );
    }
    const next: IntentRecord = {
      ...intent,
      currency,
      amount: params.has('amount') ? readAmount(params.get('amount'), currency) : intent.amount,
      metadata: readMetadata(params, intent.metadata),
      description: params.has('description')
        ? textOrNull(params.get('description'))
        : intent.description,
      paymentMethod: paymentMethod ?? intent.paymentMethod,
      status: paymentMethod === null ? intent.status : 'requires_confirmation',
    };
    saveIntent(call, next);
    return renderIntent(call.tenant, next, expand);
  };
}

function cancel(call: Call): () => object {
  call.params.onlyKnown(new Set(['cancellation_reason', 'expand']));
  const expand = readExpansion(call, EXPANDABLE);
  const reason = call.params.oneOf('cancellation_reason', [
    'duplicate',
    'fraudulent',
    'requested_by_customer',
    'abandoned',
  ]);
  return () => {
    const next = cancelIntent(call, withKey(call, findIntent(call)), reason ?? null);
    return renderIntent(call.tenant, next, expand);
  };
}

function retrieve(call: Call): () => object {
  call.params.onlyKnown(new Set(['expand', 'client_secret']));
  const expand = readExpansion(call, EXPANDABLE);
  return () => renderIntent(call.tenant, findIntent(call), expand);
}

function list(call: Call): () => object {
  call.params.onlyKnown(new Set([...LIST_PARAMS, 'customer', 'customer_account']));
  const expand = readExpansion(call, EXPANDABLE, true);
  return () =>
    listPage(call, call.tenant.intents, {
      what: 'payment_intent',
      url: '/v1/payment_intents',
      index: textOrNull(call.params.get('customer')) ?? undefined,
      render: (intent) => renderIntent(call.tenant, intent, expand),
    });
}

function search(call: Call): () => object {
  return () =>
    searchPage(call, call.tenant.intents, {
      url: '/v1/payment_intents/search',
      fields: (intent) => ({
        status: intent.status,
        customer: intent.customer ?? '',
        currency: intent.currency,
        amount: String(intent.amount),
      }),
      render: (intent) => renderIntent(call.tenant, intent),
    });
}

function findIntent(call: Call): IntentRecord {
  const intent = call.tenant.intents.get(call.id);
  if (intent === undefined)
    throw missing('payment_intent', call.id, { param: 'intent', status: 404 });
  return intent;
}

function withKey(call: Call, intent: IntentRecord): IntentRecord {
  const key = call.origin.idempotencyKey;
  return key === null || intent.keys.includes(key)
    ? intent
    : { ...intent, keys: [...intent.keys, key] };
}

const PATH = '/v1/payment_intents';

export const intentRoutes: readonly Route[] = [
  { method: 'POST', path: PATH, endpoint: 'payment_intents.create', prepare: create },
  { method: 'GET', path: PATH, endpoint: 'payment_intents.list', prepare: list },
  { method: 'GET', path: `${PATH}/search`, endpoint: 'payment_intents.search', prepare: search },
  { method: 'GET', path: `${PATH}/:id`, endpoint: 'payment_intents.retrieve', prepare: retrieve },
  {
    method: 'POST',
    path: `${PATH}/:id`,
    endpoint: 'payment_intents.update',
    locks: true,
    prepare: update,
  },
  {
    method: 'POST',
    path: `${PATH}/:id/confirm`,
    endpoint: 'payment_intents.confirm',
    locks: true,
    prepare: confirm,
  },
  {
    method: 'POST',
    path: `${PATH}/:id/cancel`,
    endpoint: 'payment_intents.cancel',
    locks: true,
    prepare: cancel,
  },
];
