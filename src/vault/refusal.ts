import type { Begun, LedgerRefusal } from '../db/vault-ledger.ts';

/** Every reason for which the vault itself says no, by the code that the client sees. */
export type RefusalCode = LedgerRefusal | keyof typeof OWN_REFUSALS;

/** How one refusal is told: status and a message that says what to do. */
interface Telling {
  readonly status: number;
  readonly message: string;
}

/** Refusals that the database decides; the sums of an exceeded cap are put in by {@link capMessage}. */
const LEDGER_REFUSALS: Record<LedgerRefusal, Telling> = {
  vault_key_unknown: {
    status: 401,
    message: 'The vault does not know this key. Send the vk_… key that POST /vault/keys showed.',
  },
  vault_key_of_another_account: {
    status: 401,
    message:
      'This key was made for another Stripe account or mode than the one behind this vault. Make a key here.',
  },
  vault_key_revoked: { status: 401, message: 'This vault key was revoked. Ask for a new one.' },
  vault_key_expired: { status: 401, message: 'This vault key has expired. Ask for a new one.' },
  vault_key_closed: {
    status: 403,
    message: 'The billing run of this key is over: it still reads, but sends nothing any more.',
  },
  period_mismatch: {
    status: 403,
    message:
      'This key is bound to another namespace or billing period than the metadata of this request names.',
  },
  idempotency_key_reused: {
    status: 409,
    message:
      'This Idempotency-Key was first sent with another method, path or body. Send those bytes again, or another key.',
  },
  idempotency_key_too_old: {
    status: 409,
    message:
      'This Idempotency-Key was first forwarded more than 23 hours ago and Stripe may forget it: sent again, it could act twice. Look the object up instead.',
  },
  unknown_payment_intent: {
    status: 403,
    message:
      'No create of this vault key made this PaymentIntent, so no budget is set aside for it. Create it through the vault.',
  },
  capture_above_reservation: {
    status: 400,
    message: 'The sum to capture is above what the create of this PaymentIntent reserved.',
  },
  currency_not_capped: {
    status: 400,
    message: 'This vault key has no cap in this currency, so nothing can be spent in it.',
  },
  spend_cap_exceeded: { status: 402, message: 'The spend cap of this vault key has no room left.' },
};

/** Refusals before or beside the database. */
const OWN_REFUSALS = {
  vault_key_missing: {
    status: 401,
    message:
      'Send a vault key (vk_…) as Authorization: Bearer, or as the user name of Basic authentication.',
  },
  bad_target: {
    status: 400,
    message:
      'The vault takes plain paths that begin with /v1/: no host, no percent encoding, no dot segments, no doubled slashes.',
  },
  query_on_post: {
    status: 400,
    message: 'Only a GET may have a query. Put parameters into the body.',
  },
  bad_header: {
    status: 400,
    message:
      'A header is doubled, is named by Connection, or holds characters that the vault does not pass on.',
  },
  bad_request: { status: 400, message: 'This is not a well-formed HTTP/1.1 request.' },
  account_header_not_allowed: {
    status: 400,
    message:
      'Stripe-Account and Stripe-Context would bill another account than the one this cap counts for. Leave them out.',
  },
  idempotency_key_missing: {
    status: 400,
    message:
      'Every POST through the vault needs an Idempotency-Key: without one a repeat would spend twice.',
  },
  idempotency_key_invalid: {
    status: 400,
    message: 'An Idempotency-Key has 1 to 255 printable ASCII characters.',
  },
  endpoint_not_allowed: {
    status: 403,
    message:
      'This vault key may not call this method and path. Its allowed_endpoints were fixed when it was made.',
  },
  amount_missing: {
    status: 400,
    message: 'The vault needs amount and currency in the form body to know what this would spend.',
  },
  amount_invalid: {
    status: 400,
    message: 'An amount is a plain whole number in minor units, from 1 to 999999999999.',
  },
  amount_ambiguous: {
    status: 400,
    message:
      'A parameter that decides the sum stands twice, is nested, is spelled in another case, or has no place in this call. Send each once, plainly.',
  },
  currency_invalid: { status: 400, message: 'A currency is three letters, such as usd.' },
  capture_not_supported: {
    status: 400,
    message:
      'A charge through the vault is captured at once. Use a PaymentIntent to capture later.',
  },
  unreadable_body: {
    status: 400,
    message:
      'The body is not strict application/x-www-form-urlencoded: UTF-8, & between pairs (write ; as %3B), whole percent escapes, names like a[b].',
  },
  body_too_large: { status: 413, message: 'The body is larger than the vault takes (256 KiB).' },
  unsupported_media_type: {
    status: 415,
    message: 'Send the body as application/x-www-form-urlencoded, uncompressed.',
  },
  expectation_failed: { status: 417, message: 'The vault knows no expectation but 100-continue.' },
  request_timeout: {
    status: 408,
    message: 'The request did not arrive in time; nothing was sent.',
  },
  vault_unavailable: {
    status: 503,
    message:
      'The vault cannot reach its database, or had no answer to a look at Stripe that it needs, so nothing was sent. Try again with the same Idempotency-Key.',
  },
  upstream_failed: {
    status: 502,
    message:
      'Stripe gave no whole answer, so the outcome is unknown and the sum stays reserved. Ask again with the same Idempotency-Key.',
  },
  upstream_timeout: {
    status: 504,
    message:
      'Stripe did not answer in time, so the outcome is unknown and the sum stays reserved. Ask again with the same Idempotency-Key.',
  },
} as const satisfies Record<string, Telling>;

const TELLINGS: Record<RefusalCode, Telling> = { ...LEDGER_REFUSALS, ...OWN_REFUSALS };

/** A refusal as it goes out. Headers say whether the same request may come again by itself. */
export interface Refusal {
  readonly code: RefusalCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Code → answer, in Stripe's error shape with our own type, so that no client takes it for a decline. Pure, and it
 * is given nothing secret. A longer message may replace the standard one.
 */
export function refusalOf(code: RefusalCode, message?: string): Refusal {
  const telling = TELLINGS[code];
  const again = telling.status === 503;
  const error = { type: 'vault_error', code, message: message ?? telling.message };
  return {
    code,
    status: telling.status,
    headers: {
      'content-type': 'application/json',
      'stripe-should-retry': String(again),
      ...(again ? { 'retry-after': '1' } : {}),
      ...(telling.status === 401 ? { 'www-authenticate': 'Bearer realm="chargeonce vault"' } : {}),
    },
    body: JSON.stringify({ error }),
  };
}

/** The refusal of a ledger decision, with its sums where it has some. Pure. */
export function ledgerRefusalOf(code: LedgerRefusal, begun: Begun, keyId: string): Refusal {
  return code === 'spend_cap_exceeded'
    ? refusalOf(code, capMessage(begun, keyId))
    : refusalOf(code);
}

/** Names the cap, what is used, what was asked, what remains and the remedy; never the key's secret part. */
function capMessage(begun: Begun, keyId: string): string {
  const cap = begun.capMinor ?? 0;
  const used = begun.usedMinor ?? 0;
  const currency = begun.currency ?? '';
  return (
    `The spend cap of vault key ${keyId} is ${cap} ${currency} in minor units: ${used} are reserved or spent, ` +
    `${begun.amountMinor ?? 0} were asked for, ${Math.max(cap - used, 0)} remain. Nothing was sent to Stripe. ` +
    `If the cap is right, find out what spent it; if not, raise it (PATCH /vault/keys/${keyId}, or ` +
    `\`chargeonce vault keys raise ${keyId}\`) and send the same request again with the same Idempotency-Key.`
  );
}
