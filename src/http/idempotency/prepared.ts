import { createHash } from 'node:crypto';
import type { Queryable } from './postgres-store.ts';

/** A connection pool that takes statements with a name, as `pg.Pool` does. */
export interface PreparingPool {
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as pg.Pool has it: the caller knows its columns
  query<R extends object>(statement: {
    name: string;
    text: string;
    values: unknown[];
  }): Promise<{ rows: R[] }>;
}

/**
 * Has each connection parse and plan the store's statements once, which takes a third off PostgreSQL's work for a key.
 * Not through a pooler that gives each transaction another connection, unless it keeps track of prepared statements.
 * Twice for one pool is harmless: a statement has the same name each time.
 */
export function prepared(pool: PreparingPool): Queryable {
  const names = new Map<string, string>();
  return {
    query(text, values) {
      const name = names.get(text) ?? nameOf(text);
      names.set(text, name);
      return pool.query({ name, text, values });
    },
  };
}

/** Of the text, so that another version of the store on the same connection has other names. */
function nameOf(text: string): string {
  return `idempotency_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
}
