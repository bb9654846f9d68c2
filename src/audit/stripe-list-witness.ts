import { periodBounds } from '../domain/billing-period.ts';
import { simulatorLedgerWitness } from './ledger-witness.ts';
import { isObject, listOf, minorOf, readPage, textOf, textOrNull } from './read-page.ts';
import {
  WitnessUnreadable,
  type ProviderIntent,
  type ProviderQuery,
  type ProviderWitness,
} from './witnesses.ts';

export interface StripeListOptions {
  readonly apiKey: string;
  /** https://api.stripe.com when not given */
  readonly apiBase?: string | undefined;
  /** from when to list; by default a day before the period began or the run was planned, whichever came first */
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  /** pauses between tries are multiplied by this; 1 but in tests */
  readonly pace?: number | undefined;
}

const STRIPE = 'https://api.stripe.com';
/** The shape that is read below; an account's default version may be of another shape. */
const API_VERSION = '2026-10-28.endive';
const PAGE = 100;
/** Time zones reach 14 h from UTC and clocks differ: a day covers both. */
const MARGIN_MS = 24 * 3_600_000;
/** One page more than any account makes in a period: a list that never ends is not read to its end. */
const MAX_PAGES = 200_000;
/** A simulator on this machine answers at once; anything slower is not one. */
const PROBE_TIMEOUT_MS = 3_000;

/**
 * The provider's own list of PaymentIntents, all pages, read with plain HTTP: neither our gateway nor
 * Stripe's package, whose mistakes it has to find. Top-level lists are consistent at once.
 */
export function stripeListWitness(options: StripeListOptions): ProviderWitness {
  return {
    source: `PaymentIntent list of ${new URL(options.apiBase ?? STRIPE).host}`,
    intents: (query) => listIntents(options, query),
  };
}

/** The ledger when a simulator answers at the API base, else the list. Sends no key to find out. */
export async function providerWitness(options: StripeListOptions): Promise<ProviderWitness> {
  const { apiBase } = options;
  if (apiBase !== undefined && (await isSimulator(apiBase))) return simulatorLedgerWitness(apiBase);
  return stripeListWitness(options);
}

async function isSimulator(apiBase: string): Promise<boolean> {
  try {
    const response = await fetch(new URL('/_sim/health', apiBase), {
      redirect: 'error',
      signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    });
    const body: unknown = await response.json();
    return response.ok && isObject(body) && body['ok'] === true;
  } catch {
    // No simulator, or nobody at all: the list finds out which, and says so.
    return false;
  }
}

async function* listIntents(
  options: StripeListOptions,
  query: ProviderQuery,
): AsyncGenerator<ProviderIntent> {
  const url = new URL('/v1/payment_intents', options.apiBase ?? STRIPE);
  url.searchParams.set('limit', String(PAGE));
  const since = options.since?.getTime() ?? defaultSinceMs(query);
  url.searchParams.set('created[gte]', String(Math.floor(since / 1000)));
  if (options.until !== undefined) {
    url.searchParams.set('created[lte]', String(Math.ceil(options.until.getTime() / 1000)));
  }
  const headers = { Authorization: `Bearer ${options.apiKey}`, 'Stripe-Version': API_VERSION };
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await readPage(url, { headers, pace: options.pace ?? 1 });
    const data = listOf(page['data'], 'data');
    for (const intent of data) {
      const metadata = isObject(intent['metadata']) ? intent['metadata'] : {};
      const ours =
        metadata['chargeonce_namespace'] === query.run.namespace &&
        metadata['chargeonce_period'] === query.run.period;
      if (ours) yield toIntent(intent, metadata);
    }
    if (page['has_more'] !== true) return;
    const last = data.at(-1);
    if (last === undefined) throw new WitnessUnreadable('an empty page says that more follow');
    url.searchParams.set('starting_after', textOf(last['id'], 'id'));
  }
  throw new WitnessUnreadable(`the list did not end after ${MAX_PAGES} pages`);
}

/** A charge made for this period before its plan (by another database, say) must not escape the list. */
function defaultSinceMs({ run, plannedAt }: ProviderQuery): number {
  const { startMs } = periodBounds(run.period, 'UTC');
  return Math.max(0, Math.min(startMs, plannedAt?.getTime() ?? Date.now()) - MARGIN_MS);
}

function toIntent(
  intent: Record<string, unknown>,
  metadata: Record<string, unknown>,
): ProviderIntent {
  const status = textOf(intent['status'], 'status');
  const chargeId = idOf(intent['latest_charge']);
  const amountMinor = minorOf(intent['amount_received'] ?? intent['amount']);
  return {
    paymentIntentId: textOf(intent['id'], 'id'),
    customerId: textOrNull(metadata['chargeonce_customer']),
    stripeCustomerId: idOf(intent['customer']),
    currency: textOf(intent['currency'], 'currency'),
    status,
    succeeded: status === 'succeeded' ? [{ chargeId, amountMinor }] : [],
    pending: status === 'processing',
    confirmed: chargeId !== null,
    metadataKey: textOrNull(metadata['chargeonce_key']),
  };
}

/** Stripe gives an id, or the whole object where it is expanded. */
function idOf(value: unknown): string | null {
  return isObject(value) ? textOrNull(value['id']) : textOrNull(value);
}
