import {
  assertCustomerExists,
  assertPaymentMethodExists,
  readExpansion,
  textOrNull,
} from './call.ts';
import type { Call, Route } from './call.ts';
import { badParameter, missing } from './errors.ts';
import { newId } from './ids.ts';
import { LIST_PARAMS, listPage } from './lists.ts';
import { assertRefundable } from './machine.ts';
import { readMetadata } from './metadata.ts';
import { paymentMethodFixture } from './fixtures.ts';
import type { ChargeRecord, CustomerRecord, RefundRecord } from './records.ts';
import {
  customerOrLazy,
  renderCharge,
  renderCustomer,
  renderEvent,
  renderRefund,
} from './render.ts';
import { renderPaymentMethod } from './render-payment-method.ts';
import { searchPage } from './search.ts';

function retrieveAccount(call: Call): () => object {
  return () => ({
    id: call.tenant.account,
    object: 'account',
    business_type: 'company',
    capabilities: { card_payments: 'active', transfers: 'active' },
    charges_enabled: true,
    country: 'US',
    default_currency: 'usd',
    details_submitted: true,
    email: 'owner@example.com',
    metadata: {},
    payouts_enabled: true,
    type: 'standard',
  });
}

function createCustomer(call: Call): () => object {
  const { params } = call;
  params.onlyKnown(
    new Set([
      'email',
      'name',
      'description',
      'metadata',
      'payment_method',
      'invoice_settings',
      'expand',
    ]),
  );
  const metadata = readMetadata(params);
  const method =
    textOrNull(params.get('invoice_settings[default_payment_method]')) ??
    textOrNull(params.get('payment_method'));
  return () => {
    if (method !== null) assertPaymentMethodExists(method);
    const record: CustomerRecord = {
      id: newId('cus').slice(0, 18),
      created: call.clock.nowSeconds(),
      metadata,
      email: textOrNull(params.get('email')),
      name: textOrNull(params.get('name')),
      description: textOrNull(params.get('description')),
      defaultPaymentMethod: method,
    };
    call.store.save(
      call.tenant,
      { of: 'customer', record },
      { type: 'customer.created', origin: call.origin },
    );
    return renderCustomer(call.tenant, record);
  };
}

function retrieveCustomer(call: Call): () => object {
  call.params.onlyKnown(new Set(['expand']));
  return () => {
    assertCustomerExists(call, call.id, { param: 'id', status: 404 });
    return renderCustomer(call.tenant, customerOrLazy(call.tenant, call.id));
  };
}

function listCustomers(call: Call): () => object {
  call.params.onlyKnown(new Set([...LIST_PARAMS, 'email']));
  return () =>
    listPage(call, call.tenant.customers, {
      what: 'customer',
      url: '/v1/customers',
      // Case-sensitive, and several customers may share an address: both as at Stripe.
      index: textOrNull(call.params.get('email')) ?? undefined,
      render: (customer) => renderCustomer(call.tenant, customer),
    });
}

function searchCustomers(call: Call): () => object {
  return () =>
    searchPage(call, call.tenant.customers, {
      url: '/v1/customers/search',
      fields: (customer) => ({ email: customer.email ?? '', name: customer.name ?? '' }),
      render: (customer) => renderCustomer(call.tenant, customer),
    });
}

function retrieveCharge(call: Call): () => object {
  call.params.onlyKnown(new Set(['expand']));
  const expand = readExpansion(call, ['payment_intent']);
  return () => {
    const charge = call.tenant.charges.get(call.id);
    if (charge === undefined) throw missing('charge', call.id, { param: 'charge', status: 404 });
    return renderCharge(call.tenant, charge, expand);
  };
}

function listCharges(call: Call): () => object {
  call.params.onlyKnown(new Set([...LIST_PARAMS, 'customer', 'payment_intent']));
  const expand = readExpansion(call, ['payment_intent'], true);
  const intent = textOrNull(call.params.get('payment_intent'));
  const customer = textOrNull(call.params.get('customer'));
  return () =>
    listPage(call, call.tenant.charges, {
      what: 'charge',
      url: '/v1/charges',
      index: intent ?? customer ?? undefined,
      filter: (charge: ChargeRecord) => customer === null || charge.customer === customer,
      render: (charge) => renderCharge(call.tenant, charge, expand),
    });
}

function createRefund(call: Call): () => object {
  const { params } = call;
  params.onlyKnown(new Set(['charge', 'payment_intent', 'amount', 'reason', 'metadata', 'expand']));
  const metadata = readMetadata(params);
  const reason =
    params.oneOf('reason', ['duplicate', 'fraudulent', 'requested_by_customer']) ?? null;
  const asked = params.get('amount');
  if (asked !== undefined && !/^[1-9]\d{0,7}$/.test(asked)) {
    throw badParameter('amount', `Invalid integer: ${asked}`, 'parameter_invalid_integer');
  }
  if (!params.has('charge') && !params.has('payment_intent')) {
    throw badParameter(
      'charge',
      'One of charge or payment_intent is required.',
      'parameter_missing',
    );
  }
  return () => {
    const charge = chargeToRefund(call);
    const amount = asked === undefined ? charge.amount - charge.amountRefunded : Number(asked);
    assertRefundable(charge, amount);
    const record: RefundRecord = {
      id: newId('re'),
      created: call.clock.nowSeconds(),
      metadata,
      amount,
      currency: charge.currency,
      charge: charge.id,
      intent: charge.intent,
      reason,
      status: 'succeeded',
    };
    const refunded = { ...charge, amountRefunded: charge.amountRefunded + amount };
    const { origin } = call;
    call.store.save(call.tenant, { of: 'refund', record }, { type: 'refund.created', origin });
    call.store.save(
      call.tenant,
      { of: 'charge', record: refunded },
      { type: 'charge.refunded', origin },
    );
    return renderRefund(record);
  };
}

function chargeToRefund(call: Call): ChargeRecord {
  const { params, tenant } = call;
  const intentId = textOrNull(params.get('payment_intent'));
  const intent = intentId === null ? undefined : tenant.intents.get(intentId);
  if (intentId !== null && intent === undefined) {
    throw missing('payment_intent', intentId, { param: 'payment_intent', status: 404 });
  }
  const id = textOrNull(params.get('charge')) ?? intent?.latestCharge ?? '';
  const charge = tenant.charges.get(id);
  if (charge === undefined) throw missing('charge', id, { param: 'charge', status: 404 });
  return charge;
}

function retrieveRefund(call: Call): () => object {
  return () => {
    const refund = call.tenant.refunds.get(call.id);
    if (refund === undefined) throw missing('refund', call.id, { param: 'id', status: 404 });
    return renderRefund(refund);
  };
}

function listRefunds(call: Call): () => object {
  call.params.onlyKnown(new Set([...LIST_PARAMS, 'charge', 'payment_intent']));
  const intent = textOrNull(call.params.get('payment_intent'));
  const charge = textOrNull(call.params.get('charge'));
  return () =>
    listPage(call, call.tenant.refunds, {
      what: 'refund',
      url: '/v1/refunds',
      index: intent ?? charge ?? undefined,
      filter: (refund: RefundRecord) => charge === null || refund.charge === charge,
      render: renderRefund,
    });
}

function retrieveEvent(call: Call): () => object {
  return () => {
    const event = call.tenant.events.get(call.id);
    if (event === undefined) throw missing('event', call.id, { param: 'id', status: 404 });
    return renderEvent(call.tenant, event);
  };
}

function listEvents(call: Call): () => object {
  call.params.onlyKnown(new Set([...LIST_PARAMS, 'type', 'types']));
  const types = call.params.list('types');
  return () =>
    listPage(call, call.tenant.events, {
      what: 'event',
      url: '/v1/events',
      index: textOrNull(call.params.get('type')) ?? undefined,
      filter: (event) => types.length === 0 || types.includes(event.type),
      render: (event) => renderEvent(call.tenant, event),
    });
}

function retrievePaymentMethod(call: Call): () => object {
  return () => {
    if (paymentMethodFixture(call.id) === undefined) {
      throw missing('PaymentMethod', call.id, { param: 'payment_method', status: 404 });
    }
    return renderPaymentMethod(call.tenant, call.id, { customer: null });
  };
}

export const resourceRoutes: readonly Route[] = [
  { method: 'GET', path: '/v1/account', endpoint: 'account.retrieve', prepare: retrieveAccount },
  { method: 'POST', path: '/v1/customers', endpoint: 'customers.create', prepare: createCustomer },
  { method: 'GET', path: '/v1/customers', endpoint: 'customers.list', prepare: listCustomers },
  {
    method: 'GET',
    path: '/v1/customers/search',
    endpoint: 'customers.search',
    prepare: searchCustomers,
  },
  {
    method: 'GET',
    path: '/v1/customers/:id',
    endpoint: 'customers.retrieve',
    prepare: retrieveCustomer,
  },
  { method: 'GET', path: '/v1/charges', endpoint: 'charges.list', prepare: listCharges },
  { method: 'GET', path: '/v1/charges/:id', endpoint: 'charges.retrieve', prepare: retrieveCharge },
  { method: 'POST', path: '/v1/refunds', endpoint: 'refunds.create', prepare: createRefund },
  { method: 'GET', path: '/v1/refunds', endpoint: 'refunds.list', prepare: listRefunds },
  { method: 'GET', path: '/v1/refunds/:id', endpoint: 'refunds.retrieve', prepare: retrieveRefund },
  { method: 'GET', path: '/v1/events', endpoint: 'events.list', prepare: listEvents },
  { method: 'GET', path: '/v1/events/:id', endpoint: 'events.retrieve', prepare: retrieveEvent },
  {
    method: 'GET',
    path: '/v1/payment_methods/:id',
    endpoint: 'payment_methods.retrieve',
    prepare: retrievePaymentMethod,
  },
];
