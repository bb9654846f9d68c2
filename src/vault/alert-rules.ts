import type { AlertDetails, AlertKind, NotableUse } from '../db/vault-alerts.ts';
import { assertNever } from '../domain/assert-never.ts';
import { crossedLines, type CapUse, type RequestFacts, type VaultEvent } from './events.ts';
import type { RefusalCode } from './refusal.ts';

/** Something worth waking somebody for. Two with the same `onceKey` are one thing, whoever saw them. */
export interface Alert {
  readonly onceKey: string;
  readonly kind: AlertKind;
  readonly keyId: string | null;
  readonly details: AlertDetails;
  /** the UTC day, which makes it another thing where the key has a budget per day; null for what is no budget's */
  readonly budgetDay: string | null;
  /** one sentence, for the log and the chat */
  readonly message: string;
}

/**
 * What an event alerts to, or null. Pure. A cap is in the once-key, so a raised one that is used up alerts again;
 * the UTC day is where only the first of many says something.
 */
export function alertOf(event: VaultEvent, now: Date): Alert | null {
  switch (event.kind) {
    case 'refused':
      return refusalAlert(event.code, event, now);
    case 'cap_crossed':
      return spendAlert(KIND_OF_LINE[event.line], event.cap, now);
    case 'reply_mismatch':
      return requestAlert('reply_mismatch', event.request, {
        once: hourOf(now),
        extra: { mismatch: event.mismatch },
        message: `Stripe's reply does not fit what was asked: ${event.mismatch}`,
      });
    case 'forwarded':
    case 'answered':
    case 'fault':
      return null;
    default:
      return assertNever(event);
  }
}

const KIND_OF_LINE = {
  '80_percent': 'spend_at_80_percent',
  expected: 'spend_above_expected',
} as const;

/**
 * What a use of a cap alerts to, whoever crossed the line and whenever: a success that Stripe showed late, or a process
 * that ended before it could say so. Pure.
 */
export function alertsOfUse(use: NotableUse, now: Date): Alert[] {
  const cap: CapUse = { ...use, amountMinor: 0 };
  const lines = crossedLines({ ...use, amountMinor: use.usedMinor });
  const alerts = lines.map((line) => spendAlert(KIND_OF_LINE[line], cap, now));
  if (use.usedMinor > use.capMinor) alerts.push(spendAlert('spend_above_cap', cap, now));
  return alerts;
}

/** Sums of a window that do not agree: somebody, or a bug of ours, has changed a count. */
export function driftAlert(window: {
  readonly keyId: string;
  readonly currency: string;
  readonly window: string;
  readonly usedMinor: number;
  readonly ledgerMinor: number;
}): Alert {
  const { keyId, currency, usedMinor, ledgerMinor } = window;
  return {
    onceKey: onceKey('drift', keyId, currency, window.window),
    kind: 'drift',
    keyId,
    budgetDay: null,
    details: {
      currency,
      window: window.window,
      used_minor: usedMinor,
      ledger_minor: ledgerMinor,
    },
    message: `the sums of vault key ${keyId} in ${currency} do not agree; see chargeonce vault drift`,
  };
}

function refusalAlert(
  code: RefusalCode,
  refused: { readonly request: RequestFacts; readonly cap: CapUse | null },
  now: Date,
): Alert | null {
  const { request, cap } = refused;
  const day = dayOf(now);
  // oxlint-disable-next-line typescript/switch-exhaustiveness-check -- every other refusal is for the client to read
  switch (code) {
    case 'spend_cap_exceeded':
      return cap === null ? null : spendAlert('spend_cap_exceeded', cap, now);
    case 'endpoint_not_allowed':
      return requestAlert('endpoint_denied', request, {
        once: day,
        message: `a request to an endpoint that its key may not call was refused: ${describe(request)}`,
      });
    case 'idempotency_key_missing':
      return requestAlert('idempotency_key_missing', request, {
        once: day,
        message: `a POST without Idempotency-Key was refused: ${describe(request)}`,
      });
    case 'vault_key_unknown':
      // Whoever has no key can invent as many as they like: one alert a day for all of them.
      return requestAlert(
        'unknown_or_expired_key',
        { ...request, keyId: null },
        {
          once: `unknown.${day}`,
          extra: { code, key_sent: request.keyId },
          message: 'a request with a key that this vault does not know was refused',
        },
      );
    case 'vault_key_expired':
    case 'vault_key_revoked':
    case 'vault_key_of_another_account':
      return requestAlert('unknown_or_expired_key', request, {
        once: `${code}.${day}`,
        extra: { code },
        message: `a request with a key that is no longer good was refused (${code})`,
      });
    default:
      return null;
  }
}

function spendAlert(
  kind: 'spend_cap_exceeded' | 'spend_at_80_percent' | 'spend_above_expected' | 'spend_above_cap',
  cap: CapUse,
  now: Date,
): Alert {
  const { keyId, currency, amountMinor, usedMinor, capMinor, expectedMinor } = cap;
  const line = kind === 'spend_above_expected' ? (expectedMinor ?? capMinor) : capMinor;
  const said = {
    spend_cap_exceeded: `the cap has no room: ${amountMinor} ${currency} were asked for and refused`,
    spend_at_80_percent: '80 % of the cap is used',
    spend_above_expected: `more is used than the plan expects (${expectedMinor}): a customer may be charged twice`,
    spend_above_cap:
      'more is spent than the cap allows: Stripe took a sum after it had been given back',
  }[kind];
  return {
    onceKey: onceKey(kind, keyId, currency, String(line)),
    kind,
    keyId,
    budgetDay: dayOf(now),
    details: {
      currency,
      asked_minor: amountMinor,
      used_minor: usedMinor,
      cap_minor: capMinor,
      expected_minor: expectedMinor,
    },
    message: `vault key ${keyId}: ${said}; ${usedMinor} of ${capMinor} ${currency} (minor units) are reserved or spent`,
  };
}

function requestAlert(
  kind: AlertKind,
  request: RequestFacts,
  about: { readonly once: string; readonly message: string; readonly extra?: AlertDetails },
): Alert {
  const { keyId, method, path, requestId, attemptId } = request;
  return {
    onceKey: onceKey(kind, keyId ?? '-', about.once),
    kind,
    keyId,
    budgetDay: null,
    details: {
      method,
      path,
      request_id: requestId,
      attempt_id: attemptId,
      ...about.extra,
    },
    message: keyId === null ? about.message : `vault key ${keyId}: ${about.message}`,
  };
}

function describe({ method, path }: RequestFacts): string {
  return path === null ? method : `${method} ${path}`;
}

function onceKey(...parts: readonly string[]): string {
  return parts.join(':');
}

function dayOf(now: Date): string {
  return now.toISOString().slice(0, 10);
}

function hourOf(now: Date): string {
  return now.toISOString().slice(0, 13);
}
