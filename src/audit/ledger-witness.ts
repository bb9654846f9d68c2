import { isObject, listOf, minorOf, readPage, textOf, textOrNull } from './read-page.ts';
import type {
  ProviderCharge,
  ProviderIntent,
  ProviderQuery,
  ProviderSend,
  ProviderWitness,
} from './witnesses.ts';

// Every page walks the ledger from its start, so fewer and larger pages are cheaper: 5,000 ≈ 3 MB.
const ENTRIES_PER_PAGE = 5_000;
const REQUESTS_PER_PAGE = 10_000;
const READER = { headers: {}, pace: 1 };

/** The Stripe simulator's own ledger and request log, which no code of the billing run writes. */
export function simulatorLedgerWitness(url: string): ProviderWitness {
  return {
    source: 'simulator ledger',
    intents: (query) => readLedger(url, query),
    sends: (query) => readRequests(url, query),
  };
}

async function* readLedger(base: string, query: ProviderQuery): AsyncGenerator<ProviderIntent> {
  const url = new URL('/_sim/ledger', base);
  const { run, account, livemode } = query;
  url.searchParams.set('namespace', run.namespace);
  url.searchParams.set('period', run.period);
  url.searchParams.set('limit', String(ENTRIES_PER_PAGE));
  if (account !== null) url.searchParams.set('account', account);
  if (livemode !== null) url.searchParams.set('livemode', String(livemode));
  for (;;) {
    const page = await readPage(url, READER);
    for (const entry of listOf(page['entries'], 'entries')) yield toIntent(entry);
    if (page['has_more'] !== true) return;
    url.searchParams.set('after', textOf(page['next'], 'next'));
  }
}

function toIntent(entry: Record<string, unknown>): ProviderIntent {
  const metadata = isObject(entry['metadata']) ? entry['metadata'] : {};
  const charges = listOf(entry['charges'], 'charges');
  const succeeded: ProviderCharge[] = charges
    .filter((charge) => charge['status'] === 'succeeded')
    .map((charge) => ({
      chargeId: textOf(charge['id'], 'id'),
      amountMinor: minorOf(charge['amount']),
    }));
  return {
    paymentIntentId: textOf(entry['paymentIntent'], 'paymentIntent'),
    customerId: textOrNull(metadata['chargeonce_customer']),
    stripeCustomerId: textOrNull(entry['customer']),
    currency: textOf(entry['currency'], 'currency'),
    status: textOf(entry['status'], 'status'),
    succeeded,
    pending: charges.some((charge) => charge['status'] === 'pending'),
    confirmed: charges.length > 0,
    metadataKey: textOrNull(metadata['chargeonce_key']),
  };
}

async function* readRequests(base: string, query: ProviderQuery): AsyncGenerator<ProviderSend> {
  const url = new URL('/_sim/requests', base);
  url.searchParams.set('limit', String(REQUESTS_PER_PAGE));
  for (;;) {
    const page = await readPage(url, READER);
    for (const request of listOf(page['requests'], 'requests')) {
      const key = textOrNull(request['idempotencyKey']);
      const other = query.account !== null && request['account'] !== query.account;
      if (key === null || other || request['method'] !== 'POST') continue;
      yield {
        idempotencyKey: key,
        attemptId: textOrNull(request['attemptId']),
        endpoint: textOf(request['endpoint'], 'endpoint'),
        bodyHash: textOrNull(request['bodyHash']),
      };
    }
    if (page['has_more'] !== true) return;
    url.searchParams.set('after', String(minorOf(page['next'])));
  }
}
