/** Which part of a list is asked for; newest first, as all Stripe lists. */
export interface PageQuery<T> {
  readonly limit: number;
  readonly startingAfter?: string | undefined;
  readonly endingBefore?: string | undefined;
  /** Restricts to one index value, for example a customer. */
  readonly index?: string | undefined;
  readonly accepts: (record: T) => boolean;
}

/**
 * Records in the order of creation, by id and by one index. Since the clock never goes back, this is also the order
 * of `created`, so that lists need no sorting and are consistent at once.
 */
export class Collection<T extends { readonly id: string; readonly created: number }> {
  readonly #records: T[] = [];
  readonly #position = new Map<string, number>();
  readonly #index = new Map<string, number[]>();
  readonly #indexOf: (record: T) => readonly (string | null)[];

  /** `indexOf` names the lists a record belongs to; null is none. */
  constructor(indexOf: (record: T) => readonly (string | null)[]) {
    this.#indexOf = indexOf;
  }

  get size(): number {
    return this.#records.length;
  }

  get(id: string): T | undefined {
    const position = this.#position.get(id);
    return position === undefined ? undefined : this.#records[position];
  }

  put(record: T): void {
    const known = this.#position.get(record.id);
    if (known !== undefined) {
      this.#records[known] = record;
      return;
    }
    const position = this.#records.push(record) - 1;
    this.#position.set(record.id, position);
    for (const index of this.#indexOf(record)) {
      if (index === null) continue;
      const positions = this.#index.get(index);
      if (positions === undefined) this.#index.set(index, [position]);
      else positions.push(position);
    }
  }

  /** All records, oldest first. */
  values(): readonly T[] {
    return this.#records;
  }

  /** Records after this one, oldest first. */
  *after(id: string): Generator<T> {
    const from = (this.#position.get(id) ?? -1) + 1;
    for (let at = from; at < this.#records.length; at += 1) {
      const record = this.#records[at];
      if (record !== undefined) yield record;
    }
  }

  /** Records of one index value, oldest first. */
  withIndex(index: string): T[] {
    return (this.#index.get(index) ?? []).flatMap((position) => this.#records[position] ?? []);
  }

  page(query: PageQuery<T>): { data: T[]; hasMore: boolean } {
    const positions = query.index === undefined ? undefined : (this.#index.get(query.index) ?? []);
    const count = positions?.length ?? this.#records.length;
    const backwards = query.endingBefore !== undefined;
    const cursor = this.#cursor(query, positions);
    const found: T[] = [];
    const step = backwards ? 1 : -1;
    let at = cursor ?? (backwards ? 0 : count - 1);
    for (; at >= 0 && at < count && found.length <= query.limit; at += step) {
      const record = this.#records[positions === undefined ? at : (positions[at] ?? -1)];
      if (record !== undefined && query.accepts(record)) found.push(record);
    }
    const hasMore = found.length > query.limit;
    const data = found.slice(0, query.limit);
    return { data: backwards ? data.toReversed() : data, hasMore };
  }

  #cursor(query: PageQuery<T>, positions: readonly number[] | undefined): number | undefined {
    const id = query.startingAfter ?? query.endingBefore;
    if (id === undefined) return undefined;
    const position = this.#position.get(id) ?? -1;
    const older = query.startingAfter !== undefined;
    if (positions === undefined) return older ? position - 1 : position + 1;
    // The cursor may lie outside the filtered list: the first one beyond it counts.
    return older
      ? positions.findLastIndex((one) => one < position)
      : nonNegative(
          positions.findIndex((one) => one > position),
          positions.length,
        );
  }
}

function nonNegative(index: number, otherwise: number): number {
  return index === -1 ? otherwise : index;
}
