/** One page of a list and the cursor of the next. */
export interface Page<Row> {
  readonly data: readonly Row[];
  readonly next: string | null;
}

/**
 * A page out of rows that were read by keyset, one more than `limit`: the one too many says that there is a next page.
 * `keyOf` gives the key of a row, which `after` of the next request is parsed back into.
 */
export function toPage<Row, Shown>(
  rows: readonly Row[],
  page: {
    readonly limit: number;
    readonly keyOf: (row: Row) => readonly (string | number)[];
    readonly show: (row: Row) => Shown;
  },
): Page<Shown> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  const more = rows.length > page.limit && last !== undefined;
  return {
    data: shown.map((row) => page.show(row)),
    next: more ? cursorOf(page.keyOf(last)) : null,
  };
}

/** The cursor behind the row of this key: what `pageShape` of schemas/common.ts parses back. */
export function cursorOf(key: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(key)).toString('base64url');
}
