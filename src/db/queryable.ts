import { CompiledQuery, type Kysely } from 'kysely';
import type { DB } from './schema.ts';

/** Our pool for code that brings its own statements, such as the store of the Idempotency-Key layer. */
export function queryable(db: Kysely<DB>) {
  return {
    // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as pg.Pool has it: the caller knows its columns
    async query<R extends object>(text: string, values: unknown[]): Promise<{ rows: R[] }> {
      const { rows } = await db.executeQuery<R>(CompiledQuery.raw(text, values));
      return { rows };
    },
  };
}
