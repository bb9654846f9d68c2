import { createHash } from 'node:crypto';
import { badParameter } from './errors.ts';

// A bound on work per request; Stripe publishes none. 50 metadata keys and a page of others fit well.
const MAX_PAIRS = 500;

/** The parameters of one request: form or query pairs by their flat names (`metadata[a]`, `created[gte]`). */
export class Params {
  readonly #pairs: readonly (readonly [string, string])[];
  readonly #byName: ReadonlyMap<string, string>;

  constructor(encoded: string) {
    const pairs = [...new URLSearchParams(encoded)];
    if (pairs.length > MAX_PAIRS) throw badParameter('', `More than ${MAX_PAIRS} parameters.`);
    this.#pairs = pairs;
    this.#byName = new Map(pairs);
  }

  get(name: string): string | undefined {
    return this.#byName.get(name);
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** Values of `name[]`, `name[0]`, `name[1]` … in the order sent. */
  list(name: string): string[] {
    const item = new RegExp(`^${name}\\[\\d*\\]$`);
    return this.#pairs.filter(([key]) => item.test(key)).map(([, value]) => value);
  }

  /** Pairs `name[key]`, with the raw text between the brackets. */
  entries(name: string): [string, string][] {
    const prefix = `${name}[`;
    return this.#pairs
      .filter(([key]) => key.startsWith(prefix) && key.endsWith(']'))
      .map(([key, value]) => [key.slice(prefix.length, -1), value]);
  }

  boolean(name: string): boolean | undefined {
    const value = this.get(name);
    if (value === undefined || value === '') return undefined;
    if (value === 'true' || value === 'false') return value === 'true';
    throw badParameter(name, `Invalid boolean: ${value}`);
  }

  oneOf<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.get(name);
    if (value === undefined || value === '') return undefined;
    const found = allowed.find((one) => one === value);
    if (found !== undefined) return found;
    throw badParameter(name, `Invalid ${name}: must be one of ${allowed.join(', ')}`);
  }

  /** Refuses, as Stripe does, every parameter the endpoint does not know. */
  onlyKnown(known: ReadonlySet<string>): void {
    for (const [key] of this.#pairs) {
      const bracket = key.indexOf('[');
      const root = bracket === -1 ? key : key.slice(0, bracket);
      if (!known.has(root))
        throw badParameter(key, `Received unknown parameter: ${key}`, 'parameter_unknown');
    }
  }

  /** Equal for equal parameters in any order. Lengths first, so that no value can imitate a separator. */
  fingerprint(): string {
    const hash = createHash('sha256');
    const sorted = this.#pairs.toSorted((a, b) =>
      a[0] === b[0] ? 0 : Buffer.compare(Buffer.from(a[0]), Buffer.from(b[0])),
    );
    for (const [key, value] of sorted) {
      hash.update(`${key.length}:${key}${value.length}:${value}`);
    }
    return hash.digest('base64');
  }
}
