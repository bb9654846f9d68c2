import type {
  Claim,
  ClaimAnswer,
  Hold,
  IdempotencyStore,
  RecordId,
  StoredResponse,
} from '../../src/http/idempotency/index.ts';

interface Entry {
  readonly fingerprint: Buffer;
  response: StoredResponse | null;
}

/**
 * Keys in memory, for this bench alone: what the plugin costs where its store costs nothing, beside layers that keep
 * theirs so. No lease, no end of a response's time.
 */
export class MapStore implements IdempotencyStore {
  readonly #entries = new Map<string, Entry>();

  async claim(claim: Claim): Promise<ClaimAnswer> {
    const found = await this.look(claim, claim.fingerprint);
    if (found !== null) return found;
    this.#entries.set(nameOf(claim), { fingerprint: claim.fingerprint, response: null });
    return { kind: 'claimed', fence: 1, takenOver: false };
  }

  async look(id: RecordId, fingerprint: Buffer) {
    const entry = this.#entries.get(nameOf(id));
    if (entry === undefined) return null;
    if (!entry.fingerprint.equals(fingerprint)) return { kind: 'mismatch' } as const;
    const { response } = entry;
    return response === null
      ? ({ kind: 'inFlight' } as const)
      : ({ kind: 'stored', response } as const);
  }

  async complete(hold: Hold, response: StoredResponse): Promise<'stored' | 'lost'> {
    const entry = this.#entries.get(nameOf(hold));
    if (entry === undefined) return 'lost';
    entry.response = response;
    return 'stored';
  }

  async abandon(hold: Omit<Hold, 'fence'>): Promise<void> {
    this.#entries.delete(nameOf(hold));
  }

  async renew() {
    return [];
  }

  async purge() {
    return 0;
  }

  async interrupted() {
    return [];
  }

  async resolve() {
    return 'notInterrupted' as const;
  }
}

function nameOf({ principal, endpoint, key }: RecordId): string {
  return `${principal} ${endpoint} ${key}`;
}
