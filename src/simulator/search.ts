import type { Call } from './call.ts';
import type { Collection } from './collection.ts';
import { badParameter } from './errors.ts';
import { readLimit } from './lists.ts';

interface SearchOptions<T> {
  readonly url: string;
  readonly fields: (record: T) => Readonly<Record<string, string>>;
  readonly render: (record: T) => object;
}

interface Clause {
  readonly field: string;
  readonly metadataKey: string | null;
  readonly value: string;
}

/**
 * Search lags on purpose: an object younger than the lag is not found. Whoever reconciles by Search fails here as they
 * would at Stripe. Exact matches joined by AND; case is ignored, as at Stripe.
 */
export function searchPage<
  T extends {
    readonly id: string;
    readonly created: number;
    readonly metadata: Readonly<Record<string, string>>;
  },
>(call: Call, collection: Collection<T>, options: SearchOptions<T>): object {
  call.params.onlyKnown(new Set(['query', 'limit', 'page', 'expand']));
  const clauses = readQuery(call.params.get('query') ?? '');
  const indexedUntil = (call.clock.nowMs() - call.searchLagMs) / 1000;
  const limit = readLimit(call.params);
  const after = call.params.get('page');
  const page = collection.page({
    limit,
    startingAfter: after === '' ? undefined : after,
    accepts: (record) =>
      record.created < indexedUntil && clauses.every((clause) => matches(record, clause, options)),
  });
  return {
    object: 'search_result',
    data: page.data.map((record) => options.render(record)),
    has_more: page.hasMore,
    next_page: page.hasMore ? (page.data.at(-1)?.id ?? null) : null,
    url: options.url,
  };
}

function readQuery(query: string): Clause[] {
  return query.split(/\s+and\s+/i).map((text) => {
    const clause = /^(?:metadata\[(["'])(.+)\1\]|([a-z_]+)):\s*(["']?)(.*)\4$/.exec(text.trim());
    if (clause === null)
      throw badParameter('query', `We were unable to parse your search query: ${text}`);
    return {
      metadataKey: clause[2] ?? null,
      field: clause[3] ?? '',
      value: (clause[5] ?? '').toLowerCase(),
    };
  });
}

function matches<T extends { readonly metadata: Readonly<Record<string, string>> }>(
  record: T,
  clause: Clause,
  options: SearchOptions<T>,
): boolean {
  if (clause.metadataKey !== null) {
    return record.metadata[clause.metadataKey]?.toLowerCase() === clause.value;
  }
  const value = options.fields(record)[clause.field];
  if (value === undefined)
    throw badParameter('query', `Field \`${clause.field}\` is not searchable.`);
  return value.toLowerCase() === clause.value;
}
