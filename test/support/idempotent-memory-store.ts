import type {
  Claim,
  ClaimAnswer,
  Hold,
  IdempotencyStore,
  RecordId,
  StoredResponse,
} from '../../src/http/idempotency/index.ts';

/** A key's record, as this store has it. */
interface MemoryRecord {
  readonly id: RecordId;
  fingerprint: Buffer;
  holder: string;
  fence: number;
  takenOver: boolean;
  leaseUntilMs: number;
  response: StoredResponse | null;
  expiresAtMs: number;
}

/** What the store decides by. A test replaces one rule to have a store with one bug. */
export interface MemoryRules {
  nameOf(id: RecordId): string;
  isSameRequest(record: MemoryRecord, fingerprint: Buffer): boolean;
  isOver(record: MemoryRecord, now: number): boolean;
  mayTakeOver(record: MemoryRecord, claim: Claim, now: number): boolean;
  mayWrite(record: MemoryRecord, hold: Hold): boolean;
  mayGiveBack(record: MemoryRecord, holder: string): boolean;
  mayPurge(record: MemoryRecord, now: number): boolean;
  mayResolve(record: MemoryRecord, now: number): boolean;
  nextFence(record: MemoryRecord): number;
  stored(response: StoredResponse): StoredResponse;
}

export const RIGHT_RULES: MemoryRules = {
  nameOf: ({ principal, endpoint, key }) => JSON.stringify([principal, endpoint, key]),
  isSameRequest: (record, fingerprint) => record.fingerprint.equals(fingerprint),
  isOver: (record, now) => record.response !== null && record.expiresAtMs <= now,
  mayTakeOver: (record, claim, now) => claim.takeover === 'rerun' && record.leaseUntilMs <= now,
  mayWrite: (record, hold) =>
    record.response === null && record.holder === hold.holder && record.fence === hold.fence,
  mayGiveBack: (record, holder) => record.response === null && record.holder === holder,
  mayPurge: (record, now) => record.response !== null && record.expiresAtMs <= now,
  mayResolve: (record, now) => record.response === null && record.leaseUntilMs <= now,
  nextFence: (record) => record.fence + 1,
  stored: (response) => response,
};

/** A store for one process: each method is one step, since nothing in it waits. */
export class MemoryIdempotencyStore implements IdempotencyStore {
  readonly #records = new Map<string, MemoryRecord>();
  readonly #rules: MemoryRules;

  constructor(rules: Partial<MemoryRules> = {}) {
    this.#rules = { ...RIGHT_RULES, ...rules };
  }

  async claim(claim: Claim): Promise<ClaimAnswer> {
    const now = performance.now();
    const record = this.#find(claim, now);
    if (record === null) return this.#begin(claim, now);
    if (!this.#rules.isSameRequest(record, claim.fingerprint)) return { kind: 'mismatch' };
    if (record.response !== null) return { kind: 'stored', response: record.response };
    if (record.holder === claim.holder) {
      record.leaseUntilMs = now + claim.leaseMs;
      return { kind: 'claimed', fence: record.fence, takenOver: record.takenOver };
    }
    if (!this.#rules.mayTakeOver(record, claim, now))
      return { kind: record.leaseUntilMs > now ? 'inFlight' : 'interrupted' };
    record.holder = claim.holder;
    record.fence = this.#rules.nextFence(record);
    record.takenOver = true;
    record.leaseUntilMs = now + claim.leaseMs;
    return { kind: 'claimed', fence: record.fence, takenOver: true };
  }

  async look(id: RecordId, fingerprint: Buffer) {
    const now = performance.now();
    const record = this.#find(id, now);
    if (record === null) return null;
    if (!this.#rules.isSameRequest(record, fingerprint)) return { kind: 'mismatch' } as const;
    if (record.response !== null) return { kind: 'stored', response: record.response } as const;
    return { kind: record.leaseUntilMs > now ? 'inFlight' : 'interrupted' } as const;
  }

  async renew(holds: readonly Hold[], leaseMs: number): Promise<readonly string[]> {
    const leaseUntilMs = performance.now() + leaseMs;
    return holds.flatMap((hold) => {
      const record = this.#records.get(this.#rules.nameOf(hold));
      if (record === undefined || !this.#rules.mayWrite(record, hold)) return [hold.holder];
      record.leaseUntilMs = leaseUntilMs;
      return [];
    });
  }

  async complete(
    hold: Hold,
    response: StoredResponse,
    retentionMs: number,
  ): Promise<'stored' | 'lost'> {
    const record = this.#records.get(this.#rules.nameOf(hold));
    if (record === undefined) return 'lost';
    if (this.#rules.mayWrite(record, hold)) {
      this.#store(record, response, retentionMs);
      return 'stored';
    }
    const before = record.response !== null && record.holder === hold.holder;
    return before && record.fence === hold.fence ? 'stored' : 'lost';
  }

  async abandon(hold: Omit<Hold, 'fence'>): Promise<void> {
    const name = this.#rules.nameOf(hold);
    const record = this.#records.get(name);
    if (record === undefined || !this.#rules.mayGiveBack(record, hold.holder)) return;
    if (record.takenOver) record.leaseUntilMs = performance.now();
    else this.#records.delete(name);
  }

  async purge(limit: number): Promise<number> {
    const now = performance.now();
    const old = [...this.#records].filter(([, record]) => this.#rules.mayPurge(record, now));
    const gone = old.slice(0, limit);
    for (const [name] of gone) this.#records.delete(name);
    return gone.length;
  }

  async interrupted(limit: number) {
    const now = performance.now();
    return [...this.#records.values()]
      .filter((record) => record.response === null && record.leaseUntilMs <= now)
      .sort((one, other) => one.leaseUntilMs - other.leaseUntilMs)
      .slice(0, limit)
      .map(({ id, leaseUntilMs }) => ({
        ...id,
        since: new Date(performance.timeOrigin + leaseUntilMs),
      }));
  }

  async resolve(
    id: RecordId,
    response: StoredResponse | null,
    retentionMs: number,
  ): Promise<'resolved' | 'notInterrupted'> {
    const name = this.#rules.nameOf(id);
    const record = this.#records.get(name);
    if (record === undefined || !this.#rules.mayResolve(record, performance.now()))
      return 'notInterrupted';
    if (response === null) this.#records.delete(name);
    else {
      record.fence = this.#rules.nextFence(record);
      this.#store(record, response, retentionMs);
    }
    return 'resolved';
  }

  #find(id: RecordId, now: number): MemoryRecord | null {
    const record = this.#records.get(this.#rules.nameOf(id));
    return record === undefined || this.#rules.isOver(record, now) ? null : record;
  }

  #begin(claim: Claim, now: number): ClaimAnswer {
    const { principal, endpoint, key, fingerprint, holder, leaseMs } = claim;
    this.#records.set(this.#rules.nameOf(claim), {
      id: { principal, endpoint, key },
      fingerprint,
      holder,
      fence: 1,
      takenOver: false,
      leaseUntilMs: now + leaseMs,
      response: null,
      expiresAtMs: 0,
    });
    return { kind: 'claimed', fence: 1, takenOver: false };
  }

  #store(record: MemoryRecord, response: StoredResponse, retentionMs: number): void {
    record.response = this.#rules.stored(response);
    record.expiresAtMs = performance.now() + retentionMs;
  }
}
