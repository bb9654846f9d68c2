import { parseCurrency } from '../domain/currencies.ts';
import { parseCustomerId } from '../domain/customer-id.ts';
import type { CustomerId } from '../domain/customer-id.ts';
import type { Currency } from '../domain/currencies.ts';
import { chargeProblem, parseAmountMajor } from '../domain/money.ts';
import { holdsCardNumber } from './card-number.ts';
import type { Column } from './csv-header.ts';
import type { ImportProblem } from './problem-list.ts';

/** What one line says about a customer, checked. */
export type CustomerRow = {
  readonly customerId: CustomerId;
  readonly stripeCustomerId: string;
  /** Absent: the customer is skipped by a run, with that reason. */
  readonly paymentMethodId: string | null;
  readonly amountMinor: number;
  readonly currency: Currency;
  readonly description: string | null;
  readonly active: boolean;
};

/** `customerId` also on a bad line, so that a repeated id is found there too. */
export type CheckedRow = {
  readonly customerId: CustomerId | undefined;
  readonly row: CustomerRow | undefined;
  readonly problems: readonly Omit<ImportProblem, 'line'>[];
};

// Stripe's limit for a description on a PaymentIntent is 1,000; a line on a statement needs less.
const MAX_DESCRIPTION_LENGTH = 500;
const MAX_FIELD_LENGTH = 255;
const MAX_SHOWN_LENGTH = 60;

const STRIPE_CUSTOMER = /^cus_[A-Za-z0-9_]+$/;
const PAYMENT_METHOD = /^pm_[A-Za-z0-9_]+$/;

type FieldProblem = { readonly message: string; readonly repeatable: boolean };

type Reader = {
  /** The field if nothing is wrong with it as a text; reports otherwise. */
  text(column: Column): string | undefined;
  reject(column: Column, message: string): undefined;
};

/** Checks every field of one record. All problems of the line are told, not the first only. */
export function checkRow(columns: readonly Column[], fields: readonly string[]): CheckedRow {
  const problems: Omit<ImportProblem, 'line'>[] = [];
  if (fields.length !== columns.length) {
    const message = `the line has ${fields.length} fields, the header has ${columns.length}`;
    return { customerId: undefined, row: undefined, problems: [{ column: '', message }] };
  }
  const reader = fieldReader(columns, fields, problems);
  const customerId = readCustomerId(reader);
  const stripeCustomerId = readStripeCustomer(reader);
  const paymentMethodId = readPaymentMethod(reader);
  const money = readMoney(reader);
  const description = reader.text('description');
  const active = readActive(reader);
  const row =
    problems.length === 0 &&
    customerId !== undefined &&
    stripeCustomerId !== undefined &&
    paymentMethodId !== undefined &&
    money !== undefined &&
    active !== undefined
      ? {
          customerId,
          stripeCustomerId,
          paymentMethodId,
          ...money,
          description: description === undefined || description === '' ? null : description,
          active,
        }
      : undefined;
  return { customerId, row, problems };
}

function fieldReader(
  columns: readonly Column[],
  fields: readonly string[],
  problems: Omit<ImportProblem, 'line'>[],
): Reader {
  return {
    text(column) {
      const text = fields[columns.indexOf(column)] ?? '';
      const problem = textProblem(column, text);
      if (problem === undefined) return text;
      problems.push({
        column,
        ...(problem.repeatable ? { value: shown(text) } : {}),
        message: problem.message,
      });
      return undefined;
    },
    reject(column, message) {
      const value = shown(fields[columns.indexOf(column)] ?? '');
      // A customer id that is refused may well be a name.
      const repeatable = column !== 'customer_id' && value !== '';
      problems.push({ column, ...(repeatable ? { value } : {}), message });
      return undefined;
    },
  };
}

function shown(text: string): string {
  return text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}…` : text;
}

function textProblem(column: Column, text: string): FieldProblem | undefined {
  const secret = (message: string) => ({ message, repeatable: false });
  if (holdsCardNumber(text)) {
    return secret('holds what looks like a card number; remove it, only Stripe ids belong here');
  }
  if (text.includes('\0')) return secret('holds a NUL character; save the file as plain text');
  if (text.includes('\uFFFD')) return secret('is not valid UTF-8; save the file as UTF-8');
  if (column === 'description') {
    return text.length > MAX_DESCRIPTION_LENGTH
      ? secret(`has ${text.length} characters; at most ${MAX_DESCRIPTION_LENGTH}`)
      : undefined;
  }
  if (text.includes('@')) return secret('looks like an e-mail; nothing personal belongs here');
  if (text.length > MAX_FIELD_LENGTH) {
    return secret(`has ${text.length} characters; at most ${MAX_FIELD_LENGTH}`);
  }
  if (text !== text.trim()) {
    return { message: 'has blanks around it; remove them', repeatable: column !== 'customer_id' };
  }
  return undefined;
}

function readCustomerId(reader: Reader): CustomerId | undefined {
  const text = reader.text('customer_id');
  if (text === undefined) return undefined;
  const parsed = parseCustomerId(text);
  return parsed.ok ? parsed.customerId : reader.reject('customer_id', parsed.problem);
}

function readStripeCustomer(reader: Reader): string | undefined {
  const text = reader.text('stripe_customer_id');
  if (text === undefined || STRIPE_CUSTOMER.test(text)) return text;
  const message =
    text === ''
      ? 'the Stripe customer is empty; it begins with cus_'
      : 'is not a Stripe customer id, which begins with cus_';
  return reader.reject('stripe_customer_id', message);
}

function readPaymentMethod(reader: Reader): string | null | undefined {
  const text = reader.text('payment_method_id');
  if (text === undefined) return undefined;
  if (text === '') return null;
  if (PAYMENT_METHOD.test(text)) return text;
  return reader.reject(
    'payment_method_id',
    'is not a Stripe payment method id, which begins with pm_; leave it empty if there is none',
  );
}

function readMoney(
  reader: Reader,
): { readonly amountMinor: number; readonly currency: Currency } | undefined {
  const amountText = reader.text('amount');
  const currencyText = reader.text('currency');
  if (currencyText === undefined) return undefined;
  const parsedCurrency = parseCurrency(currencyText);
  if (!parsedCurrency.ok) return reader.reject('currency', parsedCurrency.problem);
  if (amountText === undefined) return undefined;
  const { currency } = parsedCurrency;
  const parsedAmount = parseAmountMajor(amountText, currency);
  if (!parsedAmount.ok) return reader.reject('amount', parsedAmount.problem);
  const { amountMinor } = parsedAmount;
  // Zero is an answer: nothing to charge, and the run says so.
  if (amountMinor === 0) return { amountMinor, currency };
  const problem = chargeProblem({ amountMinor, currency });
  if (problem === undefined) return { amountMinor, currency };
  return reader.reject('amount', `${problem}; write 0 for nothing to charge`);
}

function readActive(reader: Reader): boolean | undefined {
  const text = reader.text('active')?.toLowerCase();
  if (text === undefined) return undefined;
  if (text === '' || text === 'true') return true;
  if (text === 'false') return false;
  return reader.reject('active', 'is neither true nor false; empty means true');
}
