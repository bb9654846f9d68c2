import type { Budget, VaultKey } from './db/vault-keys.ts';

/** One cap of a key as the API shows it, in minor units; `window` is the UTC date of a cap per day. */
export interface CapAnswer {
  readonly currency: string;
  readonly window: string | null;
  readonly cap: number;
  readonly expected: number | null;
  readonly reserved: number;
  readonly spent: number;
  readonly remaining: number;
}

/** A key as the API shows it: never its secret, and never the hash of it. */
export interface KeyAnswer {
  readonly id: string;
  readonly vendor: 'stripe';
  readonly account: string;
  readonly livemode: boolean;
  readonly status: 'active' | 'closed' | 'expired' | 'revoked';
  readonly cap_basis: string;
  readonly namespace: string | null;
  readonly billing_period: string | null;
  readonly caps: readonly CapAnswer[];
  readonly allowed_endpoints: readonly string[];
  readonly expires_at: string;
  /** until when it sends; null: until it expires */
  readonly open_until: string | null;
  readonly revoked_at: string | null;
  readonly created_at: string;
  readonly created_by: string;
}

/** A stored key as an answer. Pure: `now` only names the status, what passes is decided by the database's clock. */
export function keyAnswer(key: VaultKey, budgets: readonly Budget[], now: Date): KeyAnswer {
  return {
    id: key.keyId,
    vendor: 'stripe',
    account: key.account,
    livemode: key.liveMode,
    status: statusOf(key, now),
    cap_basis: key.capBasis,
    namespace: key.namespace,
    billing_period: key.period,
    caps: capAnswers(key, budgets, now),
    allowed_endpoints: key.allowedEndpoints,
    expires_at: key.expiresAt.toISOString(),
    open_until: key.openUntil?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
    created_at: key.createdAt.toISOString(),
    created_by: key.createdBy,
  };
}

/** The windows that count now: of a cap per day only today's, also where nothing was spent in it yet. */
function capAnswers(key: VaultKey, budgets: readonly Budget[], now: Date): CapAnswer[] {
  if (key.capBasis !== 'day') return budgets.map((budget) => capAnswer(budget));
  const today = now.toISOString().slice(0, 10);
  const currencies = [...new Set(budgets.map(({ currency }) => currency))];
  return currencies.flatMap((currency) => {
    const ofCurrency = budgets.filter((budget) => budget.currency === currency);
    const [any] = ofCurrency;
    if (any === undefined) return [];
    const unused = { ...any, window: today, reservedMinor: 0, spentMinor: 0 };
    return [capAnswer(ofCurrency.find(({ window }) => window === today) ?? unused)];
  });
}

function capAnswer(budget: Budget): CapAnswer {
  const { currency, window, capMinor, expectedMinor, reservedMinor, spentMinor } = budget;
  return {
    currency,
    window: window === '' ? null : window,
    cap: capMinor,
    expected: expectedMinor,
    reserved: reservedMinor,
    spent: spentMinor,
    // A success that came after its hold was given back may stand above the cap.
    remaining: Math.max(0, capMinor - reservedMinor - spentMinor),
  };
}

function statusOf(key: VaultKey, now: Date): KeyAnswer['status'] {
  if (key.revokedAt !== null) return 'revoked';
  if (key.expiresAt <= now) return 'expired';
  return key.openUntil !== null && key.openUntil <= now ? 'closed' : 'active';
}
