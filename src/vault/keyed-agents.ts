import http from 'node:http';
import https from 'node:https';

/** Keys with connections of their own at the same time; one run has one key, so more are a rarity. */
const MAX_AGENTS = 64;
/** Requests of one key at Stripe at once; its rate limit ends far below. */
const MAX_SOCKETS = 256;
/** Kept open between requests, per key. */
const MAX_FREE_SOCKETS = 64;

interface Entry {
  readonly agent: http.Agent;
  inUse: number;
}

/** A pool of connections per vault key, so that none of them carries the requests of two. The idle go first. */
export class KeyedAgents {
  readonly #secure: boolean;
  /** least recently used first */
  readonly #entries = new Map<string, Entry>();

  constructor(secure: boolean) {
    this.#secure = secure;
  }

  /** The key's agent, until `release`; a pool in use is never closed. */
  take(keyId: string): { readonly agent: http.Agent; release(): void } {
    const entry = this.#entries.get(keyId) ?? { agent: this.#open(), inUse: 0 };
    this.#entries.delete(keyId);
    this.#entries.set(keyId, entry);
    entry.inUse += 1;
    this.#dropIdle();
    return { agent: entry.agent, release: () => void (entry.inUse -= 1) };
  }

  /** Closes every connection, those in use as well. */
  close(): void {
    for (const { agent } of this.#entries.values()) agent.destroy();
    this.#entries.clear();
  }

  get size(): number {
    return this.#entries.size;
  }

  #dropIdle(): void {
    for (const [keyId, entry] of this.#entries) {
      if (this.#entries.size <= MAX_AGENTS) return;
      if (entry.inUse > 0) continue;
      this.#entries.delete(keyId);
      entry.agent.destroy();
    }
  }

  #open(): http.Agent {
    const options = {
      keepAlive: true,
      maxSockets: MAX_SOCKETS,
      maxFreeSockets: MAX_FREE_SOCKETS,
    };
    return this.#secure ? new https.Agent(options) : new http.Agent(options);
  }
}
