/** Counts by name. A fault is counted when it took effect, not when it was tried. */
export class Tally {
  readonly #counts = new Map<string, number>();

  constructor(names: readonly string[] = []) {
    for (const name of names) this.#counts.set(name, 0);
  }

  add(name: string, count = 1): void {
    this.#counts.set(name, this.of(name) + count);
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, one) => sum + one, 0);
  }

  /** Names that were announced and never counted. */
  never(): string[] {
    return [...this.#counts].filter(([, count]) => count === 0).map(([name]) => name);
  }

  toObject(): Record<string, number> {
    return Object.fromEntries([...this.#counts].toSorted(([a], [b]) => a.localeCompare(b)));
  }
}
