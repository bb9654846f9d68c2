import { readFileSync } from 'node:fs';

const FILE = '0013_idempotency-records.sql';
/** Built, the file lies beside this one; in the sources it is one of the project's migrations. */
const PLACES = [`./${FILE}`, `../../../migrations/${FILE}`];

/**
 * The SQL of what `PostgresIdempotencyStore` needs: a table, its type, its functions. For the migrations of the
 * application that has the database; it is run once, in a transaction, and fails when run again.
 */
export function migrationSql(): string {
  let missing: unknown;
  for (const place of PLACES) {
    try {
      return readFileSync(new URL(place, import.meta.url), 'utf8');
    } catch (error) {
      missing = error;
    }
  }
  throw new Error(`${FILE} is not where it belongs`, { cause: missing });
}
