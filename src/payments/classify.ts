import type { Refusal } from './gateway.ts';

/**
 * What a refusal means for the slot. `notExecuted`: Stripe did nothing, send the same key again.
 * `indeterminate` says whether sending the same key again can bring another answer.
 */
export type Verdict =
  | { readonly kind: 'declined'; readonly reason: string; readonly advice: DeclineAdvice }
  | { readonly kind: 'indeterminate'; readonly reason: string; readonly sameKeyMayHelp: boolean }
  | { readonly kind: 'notExecuted'; readonly reason: string; readonly retryAfterMs: number | null }
  | { readonly kind: 'misconfigured'; readonly reason: string; readonly stopsRun: boolean }
  | { readonly kind: 'blocked'; readonly reason: string };

/** What may bring the money after a decline. Never automatic: a rerun is an operator's order. */
export type DeclineAdvice =
  | 'try_again_later'
  | 'needs_new_card'
  | 'customer_action'
  | 'never'
  | 'no_automatic_rerun';

/** The error type of our own spend-cap proxy, whose refusals never reached Stripe. */
const VAULT_ERROR = 'vault_error';

/**
 * Refusal → meaning, from status, type, code and headers alone (docs.stripe.com/error-low-level,
 * docs.stripe.com/api/idempotent_requests). Pure; one rule per `if`. Messages are never read.
 */
export function classifyRefusal(refusal: Refusal): Verdict {
  // The vault's own refusals come first: its 402 is not a decline and its 4xx never reached Stripe.
  if (refusal.type === VAULT_ERROR) return classifyVaultRefusal(refusal);
  // "This key has already been used": something was sent under it, so the outcome is unknown.
  if (refusal.type === 'idempotency_error') {
    return { kind: 'indeterminate', reason: 'idempotency_error', sameKeyMayHelp: false };
  }
  if (refusal.status === 402) return classify402(refusal);
  // A wrong key, or one without the right, would refuse every other customer as well.
  if (refusal.status === 401) return misconfigured('api_key_refused', true);
  if (refusal.status === 403) return misconfigured(refusal.code ?? 'permission_denied', true);
  // Our key is in use: the first send is still running, or the object is locked.
  if (refusal.status === 409) return classifyConflict(refusal);
  // The limiter stands in front of execution. lock_timeout is a 429 too.
  if (refusal.status === 429) {
    const reason = refusal.code === 'lock_timeout' ? 'lock_timeout' : 'rate_limited';
    return { kind: 'notExecuted', reason, retryAfterMs: refusal.retryAfterMs };
  }
  // An outside dependency of Stripe failed after the method may have begun.
  if (refusal.status === 424) {
    return { kind: 'indeterminate', reason: 'dependency_failed', sameKeyMayHelp: false };
  }
  // Stripe saves a 500: the same key only brings the same 500, while the charge may exist.
  if (refusal.status === 500) {
    return { kind: 'indeterminate', reason: 'server_error_500', sameKeyMayHelp: false };
  }
  // 502, 503, 504 usually come from a layer in front of the one that saves replies.
  if (refusal.status > 500) {
    const sameKeyMayHelp = refusal.shouldRetry !== false;
    return { kind: 'indeterminate', reason: `server_error_${refusal.status}`, sameKeyMayHelp };
  }
  // A layer in front gave up waiting (408) or did not want the request yet (425): who knows how far it got.
  if (refusal.status === 408 || refusal.status === 425) {
    return { kind: 'indeterminate', reason: `http_${refusal.status}`, sameKeyMayHelp: true };
  }
  // What is left of 4xx: parameters, rights, unknown objects. Our request is wrong.
  if (refusal.status >= 400) {
    return misconfigured(refusal.code ?? refusal.type ?? `http_${refusal.status}`, false);
  }
  return { kind: 'indeterminate', reason: `http_${refusal.status}`, sameKeyMayHelp: false };
}

/** Whether the vault refused it before Stripe saw it: all its refusals but those that say it broke on the way (5xx other than 503). */
export function neverReachedStripe(refusal: Refusal): boolean {
  return refusal.type === VAULT_ERROR && (refusal.status < 500 || refusal.status === 503);
}

/**
 * What the vault says of the key of the whole run, or of what a run may do: every other customer would hear it too, none
 * is at fault, and once it is mended the same keys go out.
 */
const ABOUT_THE_RUN = new Set([
  'vault_key_revoked',
  'vault_key_expired',
  'vault_cap_differs',
  'run_not_planned',
  'endpoint_not_allowed',
  'period_mismatch',
]);

/**
 * What another attempt mends, which has the run's key opened again: the run was over when it was sent, or the run token
 * is just being rotated and the other worker has the new one. No customer is at fault.
 */
const OPENED_ANEW = new Set(['vault_key_closed', 'vault_key_unknown', 'token_wrong']);

function classifyVaultRefusal(refusal: Refusal): Verdict {
  if (refusal.status === 402) return { kind: 'blocked', reason: refusal.code ?? 'cap_exceeded' };
  if (refusal.status === 503) {
    return { kind: 'notExecuted', reason: 'vault_unavailable', retryAfterMs: refusal.retryAfterMs };
  }
  if (refusal.status === 429) {
    return { kind: 'notExecuted', reason: 'vault_busy', retryAfterMs: refusal.retryAfterMs };
  }
  // The request did not arrive whole in time, such as while one of the two was frozen; the next one may.
  if (refusal.status === 408) {
    return { kind: 'notExecuted', reason: 'vault_408', retryAfterMs: null };
  }
  // It broke somewhere between its own check and Stripe's answer.
  if (refusal.status >= 500) {
    return { kind: 'indeterminate', reason: `vault_${refusal.status}`, sameKeyMayHelp: true };
  }
  const code = refusal.code ?? `vault_${refusal.status}`;
  if (OPENED_ANEW.has(code)) return { kind: 'notExecuted', reason: code, retryAfterMs: null };
  // Something was sent under this key before, with other bytes or too long ago: the outcome is unknown.
  if (code === 'idempotency_key_reused' || code === 'idempotency_key_too_old')
    return { kind: 'indeterminate', reason: code, sameKeyMayHelp: false };
  if (refusal.status === 401 || ABOUT_THE_RUN.has(code)) return { kind: 'blocked', reason: code };
  return misconfigured(code, false);
}

function classifyConflict(refusal: Refusal): Verdict {
  const inUse = refusal.code === 'idempotency_key_in_use';
  // Stripe says that another send would change nothing: only a look-up can tell.
  if (!inUse && refusal.shouldRetry === false) {
    return { kind: 'indeterminate', reason: 'conflict', sameKeyMayHelp: false };
  }
  const reason = inUse ? 'idempotency_key_in_use' : 'conflict';
  return { kind: 'notExecuted', reason, retryAfterMs: refusal.retryAfterMs };
}

function classify402(refusal: Refusal): Verdict {
  // A host or proxy whose own bill is unpaid says 402 too. Only Stripe's card_error is a decline.
  if (refusal.type !== 'card_error') {
    return { kind: 'indeterminate', reason: 'http_402', sameKeyMayHelp: false };
  }
  const reason = refusal.declineCode ?? refusal.code ?? 'card_declined';
  // Same amount and card were used just before: the other payment may be ours.
  if (reason === 'duplicate_transaction') {
    return { kind: 'indeterminate', reason, sameKeyMayHelp: false };
  }
  return { kind: 'declined', reason, advice: declineAdvice(refusal) };
}

const TRY_LATER = new Set([
  'approve_with_id',
  'issuer_not_available',
  'processing_error',
  'reenter_transaction',
  'try_again_later',
  'insufficient_funds',
  'card_decline_rate_limit_exceeded',
]);
const NEEDS_NEW_CARD = new Set([
  'expired_card',
  'incorrect_number',
  'invalid_account',
  'lost_card',
  'stolen_card',
  'pickup_card',
  'restricted_card',
]);
const NEVER = new Set([
  'fraudulent',
  'merchant_blacklist',
  'stop_payment_order',
  'revocation_of_authorization',
  'revocation_of_all_authorizations',
  'testmode_decline',
]);

/** Advice from Stripe's advice_code, else from the decline code (docs.stripe.com/declines/codes). */
export function declineAdvice(
  decline: Pick<Refusal, 'code' | 'declineCode' | 'adviceCode'>,
): DeclineAdvice {
  if (decline.code === 'authentication_required') return 'customer_action';
  if (decline.declineCode === 'authentication_required') return 'customer_action';
  if (decline.adviceCode === 'do_not_try_again') return 'never';
  if (decline.adviceCode === 'confirm_card_data') return 'needs_new_card';
  if (decline.adviceCode === 'try_again_later') return 'try_again_later';
  const code = decline.declineCode ?? decline.code ?? '';
  if (TRY_LATER.has(code)) return 'try_again_later';
  if (NEEDS_NEW_CARD.has(code)) return 'needs_new_card';
  if (NEVER.has(code)) return 'never';
  return 'no_automatic_rerun';
}

function misconfigured(reason: string, stopsRun: boolean): Verdict {
  return { kind: 'misconfigured', reason, stopsRun };
}
