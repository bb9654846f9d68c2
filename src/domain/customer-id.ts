declare const customerIdBrand: unique symbol;

/** Our own id of a customer: opaque ASCII, so that nothing personal reaches ids, logs or headers. */
export type CustomerId = string & { readonly [customerIdBrand]: true };

const CUSTOMER_ID = /^[A-Za-z0-9_.-]{1,64}$/;

function isCustomerId(text: string): text is CustomerId {
  return CUSTOMER_ID.test(text);
}

/** The only way to a `CustomerId`. The problem says what to change; it never repeats an e-mail. */
export function parseCustomerId(
  text: string,
): { readonly ok: true; readonly customerId: CustomerId } | { ok: false; problem: string } {
  if (isCustomerId(text)) return { ok: true, customerId: text };
  if (text === '') return { ok: false, problem: 'the customer id is empty' };
  if (text.includes('@')) {
    return {
      ok: false,
      problem: 'the customer id looks like an e-mail; use an opaque id, nothing personal',
    };
  }
  if (text.length > 64) {
    return { ok: false, problem: `the customer id has ${text.length} characters; at most 64` };
  }
  return {
    ok: false,
    problem: 'the customer id may hold only the letters A-Z a-z, digits, "_", "." and "-"',
  };
}
