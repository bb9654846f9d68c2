import type { Call } from './call.ts';
import type { Collection, PageQuery } from './collection.ts';
import { badParameter, missing } from './errors.ts';
import type { Params } from './params.ts';

export const LIST_PARAMS = [
  'limit',
  'starting_after',
  'ending_before',
  'created',
  'expand',
] as const;
const DEFAULT_LIMIT = 10;
const MAX_LIMIT = 100;

interface ListOptions<T> {
  readonly what: string;
  readonly url: string;
  readonly index?: string | undefined;
  readonly filter?: (record: T) => boolean;
  readonly render: (record: T) => object;
}

/** The `created` filter: exact or a range, in seconds. */
function readCreated(params: Params): (record: { readonly created: number }) => boolean {
  const bound = (name: string): number | undefined => {
    const value = params.get(name);
    if (value === undefined || value === '') return undefined;
    if (!/^\d{1,12}$/.test(value)) throw badParameter(name, `Invalid timestamp: ${value}`);
    return Number(value);
  };
  const exact = bound('created');
  const gte = bound('created[gte]') ?? -Infinity;
  const gt = bound('created[gt]') ?? -Infinity;
  const lte = bound('created[lte]') ?? Infinity;
  const lt = bound('created[lt]') ?? Infinity;
  return ({ created }) =>
    (exact === undefined || created === exact) &&
    created >= gte &&
    created > gt &&
    created <= lte &&
    created < lt;
}

export function readLimit(params: Params): number {
  const value = params.get('limit');
  if (value === undefined || value === '') return DEFAULT_LIMIT;
  const limit = /^\d{1,4}$/.test(value) ? Number(value) : 0;
  if (limit < 1 || limit > MAX_LIMIT) {
    throw badParameter('limit', `Invalid limit: must be between 1 and ${MAX_LIMIT}.`);
  }
  return limit;
}

/** A list in Stripe's envelope: newest first, consistent at once. */
export function listPage<T extends { readonly id: string; readonly created: number }>(
  call: Call,
  collection: Collection<T>,
  options: ListOptions<T>,
): object {
  const { params } = call;
  const created = readCreated(params);
  const { filter } = options;
  const query: PageQuery<T> = {
    limit: readLimit(params),
    startingAfter: readCursor(params, 'starting_after'),
    endingBefore: readCursor(params, 'ending_before'),
    index: options.index,
    accepts: created,
  };
  if (query.startingAfter !== undefined && query.endingBefore !== undefined) {
    throw badParameter('ending_before', 'You cannot use both starting_after and ending_before.');
  }
  const cursor = query.startingAfter ?? query.endingBefore;
  if (cursor !== undefined && collection.get(cursor) === undefined) {
    const param = query.startingAfter === undefined ? 'ending_before' : 'starting_after';
    throw missing(options.what, cursor, { param, status: 400 });
  }
  const page = collection.page(
    filter === undefined
      ? query
      : { ...query, accepts: (record) => created(record) && filter(record) },
  );
  return {
    object: 'list',
    data: page.data.map((record) => options.render(record)),
    has_more: page.hasMore,
    url: options.url,
  };
}

function readCursor(params: Params, name: string): string | undefined {
  const value = params.get(name);
  return value === '' ? undefined : value;
}
