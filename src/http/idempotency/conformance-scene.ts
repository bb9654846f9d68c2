import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type {
  Claim,
  ClaimAnswer,
  Hold,
  IdempotencyStore,
  RecordId,
  StoredResponse,
} from './store.ts';

/** How long the checks of `storeConformance` take. */
export interface ConformanceTools {
  /** a lease, or a time of keeping, that is over soon; milliseconds */
  readonly shortMs: number;
  /** what to wait for such an end at most; milliseconds */
  readonly patienceMs: number;
}

/** One thing that a store has to do. `run` rejects with an AssertionError of node:assert where it does not. */
export interface ConformanceCheck {
  readonly name: string;
  readonly run: (store: IdempotencyStore, tools: ConformanceTools) => Promise<void>;
}

/** No check lasts as long. */
const LONG_MS = 3_600_000;
const POLL_MS = 2;

/** One key that nobody has used, and short words for what is done with it. */
export class Scene {
  readonly store: IdempotencyStore;
  readonly shortMs: number;
  readonly longMs = LONG_MS;
  readonly id: RecordId = {
    principal: `conformance ${randomUUID()}`,
    endpoint: '*',
    key: randomUUID(),
  };
  readonly #patienceMs: number;

  constructor(store: IdempotencyStore, tools: ConformanceTools) {
    this.store = store;
    this.shortMs = tools.shortMs;
    this.#patienceMs = tools.patienceMs;
  }

  /** A try with the first request, by somebody new, that may not run again, for long: unless said otherwise. */
  try(changes: Partial<Claim> = {}): Promise<ClaimAnswer> {
    return this.store.claim({
      ...this.id,
      fingerprint: REQUEST,
      holder: randomUUID(),
      leaseMs: LONG_MS,
      takeover: 'conflict',
      ...changes,
    });
  }

  /** A try that has to take the key. */
  async take(changes: Partial<Claim> = {}): Promise<Hold> {
    const holder = changes.holder ?? randomUUID();
    const answer = await this.try({ ...changes, holder });
    assert.equal(answer.kind, 'claimed', 'the key was not given');
    const { principal, endpoint, key } = { ...this.id, ...changes };
    return {
      principal,
      endpoint,
      key,
      holder,
      fence: answer.kind === 'claimed' ? answer.fence : 0,
    };
  }

  /** Takes the key, and returns when the lease is over. */
  async takeAndLose(changes: Partial<Claim> = {}): Promise<Hold> {
    const hold = await this.take({ leaseMs: this.shortMs, ...changes });
    await this.untilOver(hold);
    return hold;
  }

  /** Takes over a key whose holder is gone. */
  takeOver(changes: Partial<Claim> = {}): Promise<Hold> {
    return this.take({ takeover: 'rerun', ...changes });
  }

  look(fingerprint: Buffer = REQUEST, id: RecordId = this.id) {
    return this.store.look(id, fingerprint);
  }

  complete(hold: Hold, text = 'an answer', retentionMs = LONG_MS): Promise<'stored' | 'lost'> {
    return this.store.complete(hold, answering(text), retentionMs);
  }

  async untilOver(id: RecordId = this.id): Promise<void> {
    await this.#until(
      async () => (await this.look(REQUEST, id))?.kind === 'interrupted',
      'a lease does not end',
    );
  }

  async untilForgotten(id: RecordId = this.id): Promise<void> {
    await this.#until(
      async () => (await this.look(REQUEST, id)) === null,
      'a stored response does not end',
    );
  }

  /** The key is stored, with this answer. */
  async assertStored(text: string): Promise<void> {
    const answer = await this.try({ takeover: 'rerun' });
    assert.deepEqual(answer, { kind: 'stored', response: answering(text) });
  }

  async #until(condition: () => Promise<boolean>, complaint: string): Promise<void> {
    const until = performance.now() + this.#patienceMs;
    while (!(await condition())) {
      assert.ok(performance.now() < until, complaint);
      await sleep(POLL_MS);
    }
  }
}

/** The request of every try that says nothing else, and another one. */
export const REQUEST = fingerprintOf('a request');
export const OTHER_REQUEST = fingerprintOf('another request');

function fingerprintOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** A response that is told by its body. */
export function answering(text: string): StoredResponse {
  return {
    state: 'COMPLETED',
    status: 201,
    headers: [['content-type', 'text/plain']],
    body: Buffer.from(text),
  };
}

/** As many as are asked for, at once. */
export function atOnce<T>(count: number, work: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, work));
}
