/** One key of one caller. Whoever else uses the same characters has another record. */
export interface RecordId {
  /** who called: the tenant, never the credential, which may be rotated between two tries */
  readonly principal: string;
  /** `*` where one key stands for one request of the whole API, else the route */
  readonly endpoint: string;
  readonly key: string;
}

/** One try to become the holder of a key. */
export interface Claim extends RecordId {
  /** SHA-256 of the request, 32 bytes */
  readonly fingerprint: Buffer;
  /** a UUID of this try; the same one again is the same try */
  readonly holder: string;
  readonly leaseMs: number;
  /** whether the handler may run again when its earlier holder is gone */
  readonly takeover: Takeover;
}

/**
 * `rerun`: every effect of the handler has a key of its own, so it may run again after a crash. `conflict`: it may not,
 * and the key answers 409 until somebody has looked.
 */
export type Takeover = 'rerun' | 'conflict';

/** The right to answer for a key. Taken over, its fence is old, and nothing more can be written with it. */
export interface Hold extends RecordId {
  readonly holder: string;
  readonly fence: number;
}

/** `FAILED`: the handler answered 5xx. It is answered again all the same, since it may have had effects. */
export type FinalState = 'COMPLETED' | 'FAILED';

export interface StoredResponse {
  readonly state: FinalState;
  readonly status: number;
  /** allow-listed ones, in their order */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** null: it was delivered, and too large or too secret to be kept */
  readonly body: Buffer | null;
}

export type ClaimAnswer =
  | { readonly kind: 'claimed'; readonly fence: number; readonly takenOver: boolean }
  | { readonly kind: 'inFlight' }
  /** its holder is gone, and the handler must not run again */
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'mismatch' }
  | { readonly kind: 'stored'; readonly response: StoredResponse };

/** A key whose holder is gone: it answers 409 until it is taken over or resolved. */
export interface Interrupted extends RecordId {
  readonly since: Date;
}

/**
 * Where keys are kept. Every method is one atomic step, throws when the store cannot be reached, and may then have
 * happened or not: all can be called again. Times are the store's, so that clocks of callers do not matter.
 * `storeConformance` holds any implementation to this.
 */
export interface IdempotencyStore {
  /** Takes the key, or says what stands in the way. Never waits for the holder of a key. */
  claim(claim: Claim): Promise<ClaimAnswer>;
  /** What `claim` would answer, without taking anything; null when there is nothing under this key. */
  look(
    id: RecordId,
    fingerprint: Buffer,
  ): Promise<Exclude<ClaimAnswer, { kind: 'claimed' }> | null>;
  /** Makes leases so long from now on; 0 ends them. Answers the holders that have lost theirs. */
  renew(holds: readonly Hold[], leaseMs: number): Promise<readonly string[]>;
  /** Stores the response, for so long. `lost`: the key has another holder or was resolved, and nothing was written. */
  complete(hold: Hold, response: StoredResponse, retentionMs: number): Promise<'stored' | 'lost'>;
  /**
   * Gives the key back as if it had never come: only when it is certain that this try ran nothing. A key that was taken
   * over stays, free to be taken over again.
   */
  abandon(hold: Omit<Hold, 'fence'>): Promise<void>;
  /** Removes responses whose time is over, at most so many; keys in flight never. Answers how many. */
  purge(limit: number): Promise<number>;
  /** Keys that wait for somebody to look, oldest first. */
  interrupted(limit: number): Promise<readonly Interrupted[]>;
  /**
   * Ends the wait: with a response from now on, or, with null, free for the next try. Only while its holder is gone.
   */
  resolve(
    id: RecordId,
    response: StoredResponse | null,
    retentionMs: number,
  ): Promise<'resolved' | 'notInterrupted'>;
}
