import type { FaultKind, FaultPlan, FaultRule } from './options.ts';

/** What a rule did so far. A run in which no fault fired proves nothing. */
export interface FaultCount {
  readonly id: string;
  readonly kind: FaultKind;
  readonly endpoint: string;
  readonly matched: number;
  readonly fired: number;
}

/** One physical request, as the rules see it. */
export interface FaultTarget {
  readonly endpoint: string;
  /** Before the body is read only `refuse` without `where` can be decided, after it all others. */
  readonly phase: 'head' | 'body';
  /** The request's own metadata over that of its PaymentIntent. */
  readonly metadata: () => Readonly<Record<string, string>>;
}

interface RuleState {
  readonly rule: FaultRule;
  readonly random: () => number;
  matched: number;
  fired: number;
}

const KINDS: ReadonlySet<string> = new Set<FaultKind>([
  'refuse',
  'resetBefore',
  'actThenDrop',
  'actThen500',
  'fail500',
  'lateSuccess500',
  'status409',
  'status429',
  'status502',
  'status503',
  'status504',
  'slow',
  'truncate',
  'wrongContentType',
  'declineOnce',
  'doubleReply',
]);

/** The plan at work. Each rule has its own random sequence, so adding one does not change the luck of the others. */
export class Faults {
  #rules: RuleState[] = [];

  constructor(plan: FaultPlan | undefined) {
    this.set(plan);
  }

  /** Replaces the plan and starts its counters and its luck anew. */
  set(plan: FaultPlan | undefined): void {
    const rules = plan?.rules ?? [];
    const ids = new Set<string>();
    for (const rule of rules) {
      if (!KINDS.has(rule.kind)) throw new TypeError(`unknown fault kind: ${rule.kind}`);
      if (ids.has(rule.id)) throw new TypeError(`two fault rules have the id ${rule.id}`);
      if (rule.rate !== undefined && !(rule.rate >= 0 && rule.rate <= 1)) {
        throw new RangeError(`rate of fault rule ${rule.id} must be between 0 and 1`);
      }
      ids.add(rule.id);
    }
    this.#rules = rules.map((rule) => ({
      rule,
      random: seededRandom(`${plan?.seed ?? 1}:${rule.id}`),
      matched: 0,
      fired: 0,
    }));
  }

  /** The first rule that fires for this physical request. Counted at once; take it back with `undo` if it had no effect. */
  pick(target: FaultTarget): FaultRule | undefined {
    let chosen: RuleState | undefined;
    for (const state of this.#rules) {
      if (phaseOf(state.rule) !== target.phase) continue;
      if (!endpointMatches(state.rule.endpoint, target.endpoint)) continue;
      if (!metadataMatches(state.rule, target)) continue;
      state.matched += 1;
      // Drawn for every rule, even behind one that fires: a rule's luck depends on its requests alone.
      const lucky = isLucky(state);
      if (lucky && state.fired < (state.rule.limit ?? Infinity)) chosen ??= state;
    }
    if (chosen === undefined) return undefined;
    chosen.fired += 1;
    return chosen.rule;
  }

  /** The rule met a request it could not spoil (a saved reply, a refused one): it has not fired. */
  undo(rule: FaultRule): void {
    const state = this.#rules.find((one) => one.rule === rule);
    if (state !== undefined) state.fired -= 1;
  }

  counts(): FaultCount[] {
    return this.#rules.map(({ rule, matched, fired }) => ({
      id: rule.id,
      kind: rule.kind,
      endpoint: rule.endpoint,
      matched,
      fired,
    }));
  }
}

function phaseOf(rule: FaultRule): 'head' | 'body' {
  return rule.kind === 'refuse' && rule.where === undefined ? 'head' : 'body';
}

function isLucky({ rule, matched, random }: RuleState): boolean {
  const { nth, rate } = rule;
  if (nth !== undefined) return typeof nth === 'number' ? nth === matched : nth.includes(matched);
  return rate === undefined || random() < rate;
}

function endpointMatches(pattern: string, endpoint: string): boolean {
  if (pattern === '*' || pattern === endpoint) return true;
  return pattern.endsWith('.*') && endpoint.startsWith(pattern.slice(0, -1));
}

function metadataMatches(rule: FaultRule, target: FaultTarget): boolean {
  if (rule.where === undefined) return true;
  const metadata = target.metadata();
  return Object.entries(rule.where).every(([key, value]) => metadata[key] === value);
}

/** A seeded generator (xmur3 into mulberry32): small, and the same on every machine. */
export function seededRandom(seed: string): () => number {
  let hash = 1_779_033_703 ^ seed.length;
  for (const char of seed) {
    hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 3_432_918_353);
    hash = (hash << 13) | (hash >>> 19);
  }
  let state = hash >>> 0;
  return () => {
    state = (state + 0x6d_2b_79_f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
