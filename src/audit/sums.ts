/** Sums per currency. bigint, because the sum of safe integers need not be one. */
export class Sums {
  readonly #byCurrency = new Map<string, bigint>();

  add(currency: string, amountMinor: number): void {
    const before = this.#byCurrency.get(currency) ?? 0n;
    this.#byCurrency.set(currency, before + BigInt(amountMinor));
  }

  get(currency: string): bigint {
    return this.#byCurrency.get(currency) ?? 0n;
  }

  currencies(): Iterable<string> {
    return this.#byCurrency.keys();
  }

  /** For JSON. A sum beyond 2^53 is refused rather than rounded. */
  toNumbers(): Record<string, number> {
    const numbers: Record<string, number> = {};
    for (const currency of [...this.#byCurrency.keys()].toSorted()) {
      const sum = Number(this.get(currency));
      if (!Number.isSafeInteger(sum)) throw new RangeError(`the sum in ${currency} is beyond 2^53`);
      numbers[currency] = sum;
    }
    return numbers;
  }
}

/** The currencies in which two sums differ. */
export function differingCurrencies(a: Sums, b: Sums): string[] {
  const all = new Set([...a.currencies(), ...b.currencies()]);
  return [...all].filter((currency) => a.get(currency) !== b.get(currency)).toSorted();
}
