import { z } from 'zod';
import { ListTooLong } from './gateway.ts';
import { parseReply } from './stripe-replies.ts';

/** Largest page of a v1 list (docs.stripe.com/api/pagination). */
const PAGE = 100;

export interface PagedQuery<T> {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly item: z.ZodType<T>;
  /** more than this is not read: the reader says what it means */
  readonly maxPages: number;
}

/** The pages of a v1 list, newest first. Throws {@link ListTooLong} when it goes on after `maxPages`. */
export async function* pagesOf<T extends { readonly id: string }>(
  get: (path: string) => Promise<unknown>,
  query: PagedQuery<T>,
): AsyncGenerator<readonly T[]> {
  const schema = z.object({ data: z.array(query.item), has_more: z.boolean() });
  let after: string | null = null;
  for (let page = 0; page < query.maxPages; page += 1) {
    const params = new URLSearchParams({ ...query.params, limit: String(PAGE) });
    if (after !== null) params.set('starting_after', after);
    const reply = await get(`${query.path}?${params.toString()}`);
    const list: z.infer<typeof schema> = parseReply(schema, reply);
    yield list.data;
    after = list.data.at(-1)?.id ?? null;
    if (!list.has_more || after === null) return;
  }
  throw new ListTooLong(`${query.path} did not end after ${query.maxPages} pages`, {
    status: null,
    cause: undefined,
  });
}

/** All of a list at once, for lists that are short by what they are about. */
export async function listAll<T extends { readonly id: string }>(
  get: (path: string) => Promise<unknown>,
  query: PagedQuery<T>,
): Promise<readonly T[]> {
  const found: T[] = [];
  for await (const page of pagesOf(get, query)) found.push(...page);
  return found;
}
