import type { Begun } from '../db/vault-ledger.ts';
import type { MatchedEndpoint } from './endpoints.ts';
import type { CapUse, RequestFacts } from './events.ts';
import { readForm, type FormFacts, type FormProblem } from './form-body.ts';
import { isForm, type RequestHead } from './headers.ts';
import { marksOf } from './marks.ts';

/** A request whose head is in order; its body is not read yet. */
export interface Admitted {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly query: string;
  readonly head: RequestHead;
  readonly keyId: string;
  readonly endpoint: MatchedEndpoint;
}

const NO_FORM: FormFacts = {
  amountMinor: null,
  currency: null,
  stripeCustomer: null,
  marks: marksOf([]),
  namespace: null,
  period: null,
  customerId: null,
};

/** What the body says, or why it is refused. Pure. */
export function readBody(
  { method, head, endpoint }: Admitted,
  body: Buffer,
): FormFacts | FormProblem | 'unsupported_media_type' | 'bad_request' {
  if (method !== 'POST') return body.length === 0 ? NO_FORM : 'bad_request';
  if (body.length > 0 && !isForm(head.contentType)) return 'unsupported_media_type';
  const form = readForm(body, endpoint);
  return form.ok ? form.facts : form.code;
}

/** Nothing known yet. */
export const NO_FACTS: Omit<RequestFacts, 'method'> = {
  requestId: null,
  keyId: null,
  path: null,
  idempotencyKey: null,
  attemptId: null,
  namespace: null,
  period: null,
  customerId: null,
  amountMinor: null,
  currency: null,
};

/** What log, metrics and alerts may know of a request. Pure. */
export function factsOf(
  { method, path, keyId, head }: Admitted,
  form: FormFacts | null,
): RequestFacts {
  const { idempotencyKey, attemptId } = head;
  const { namespace, period, customerId, amountMinor, currency } = form ?? NO_FACTS;
  return {
    requestId: null,
    keyId,
    method,
    path,
    idempotencyKey,
    attemptId,
    namespace,
    period,
    customerId,
    amountMinor,
    currency,
  };
}

/** What the ledger says of the cap; null where nothing had to be reserved. Pure. */
export function capUseOf(keyId: string, begun: Begun): CapUse | null {
  const { amountMinor, currency, usedMinor, capMinor, expectedMinor } = begun;
  if (amountMinor === null || currency === null || usedMinor === null || capMinor === null)
    return null;
  return { keyId, currency, amountMinor, usedMinor, capMinor, expectedMinor };
}
