/** Whoever listens to a feed. */
export interface Listener<Value> {
  /** a new value, or the latest one for who has just come */
  readonly onValue: (value: Value) => void;
  /** nothing more comes */
  readonly onEnd: () => void;
}

export interface FeedOptions<Value> {
  /** reads the value of a key; null: it is not there any more, which ends its feed */
  readonly read: (key: string) => Promise<Value | null>;
  /** after this value nothing more comes */
  readonly isLast: (value: Value) => boolean;
  /** listeners over all feeds */
  readonly maxListeners: number;
  readonly onError: (error: unknown) => void;
  /** how many listen now, for the metrics */
  readonly onCount?: (listeners: number) => void;
  readonly pauses?: Partial<typeof PAUSES>;
}

const PAUSES = {
  /** after a change */
  shortestMs: 1_000,
  /** where nothing changes, or nothing can be read */
  longestMs: 10_000,
};
const GROWTH = 1.5;
/** A reading that takes long must not be all that the database does. */
const REST_FACTOR = 4;

/**
 * One reader for each key, however many listen to it: it reads while somebody listens, at most once a second, and tells
 * of what has changed.
 */
export class Feeds<Value> {
  readonly #options: FeedOptions<Value>;
  readonly #pauses: typeof PAUSES;
  readonly #feeds = new Map<string, Feed<Value>>();
  #closed = false;

  constructor(options: FeedOptions<Value>) {
    this.#options = options;
    this.#pauses = { ...PAUSES, ...options.pauses };
  }

  /** Listens from now on; answers how to stop, or null when there are too many listeners. */
  listen(key: string, listener: Listener<Value>): (() => void) | null {
    if (this.#closed || this.#count() >= this.#options.maxListeners) return null;
    const feed = this.#feeds.get(key) ?? this.#open(key);
    feed.listeners.add(listener);
    if (feed.latest !== null) listener.onValue(feed.latest.value);
    this.#counted();
    return () => {
      if (!feed.listeners.delete(listener)) return;
      if (feed.listeners.size === 0) this.#drop(key, feed);
      this.#counted();
    };
  }

  /** Ends every feed, and takes no listeners any more. */
  close(): void {
    this.#closed = true;
    for (const [key, feed] of this.#feeds) this.#end(key, feed);
  }

  #open(key: string): Feed<Value> {
    const feed: Feed<Value> = { listeners: new Set(), latest: null, timer: undefined };
    this.#feeds.set(key, feed);
    void this.#round(key, feed, this.#pauses.shortestMs);
    return feed;
  }

  async #round(key: string, feed: Feed<Value>, pauseMs: number): Promise<void> {
    const began = performance.now();
    let value: Value | null | undefined;
    try {
      value = await this.#options.read(key);
    } catch (error) {
      this.#options.onError(error);
    }
    if (this.#feeds.get(key) !== feed) return;
    if (value === null) return this.#end(key, feed);
    const changed = value !== undefined && tell(feed, value);
    if (value !== undefined && this.#options.isLast(value)) return this.#end(key, feed);
    const { shortestMs, longestMs } = this.#pauses;
    const next = changed ? shortestMs : Math.min(longestMs, pauseMs * GROWTH);
    const restMs = Math.max(next, (performance.now() - began) * REST_FACTOR);
    feed.timer = setTimeout(() => void this.#round(key, feed, next), restMs);
  }

  #end(key: string, feed: Feed<Value>): void {
    this.#drop(key, feed);
    const listeners = [...feed.listeners];
    feed.listeners.clear();
    for (const { onEnd } of listeners) onEnd();
    this.#counted();
  }

  #drop(key: string, feed: Feed<Value>): void {
    clearTimeout(feed.timer);
    if (this.#feeds.get(key) === feed) this.#feeds.delete(key);
  }

  #count(): number {
    let count = 0;
    for (const { listeners } of this.#feeds.values()) count += listeners.size;
    return count;
  }

  #counted(): void {
    this.#options.onCount?.(this.#count());
  }
}

interface Feed<Value> {
  readonly listeners: Set<Listener<Value>>;
  latest: { readonly value: Value; readonly text: string } | null;
  timer: NodeJS.Timeout | undefined;
}

/** True when the value is another one than the latest. */
function tell<Value>(feed: Feed<Value>, value: Value): boolean {
  const text = JSON.stringify(value);
  if (feed.latest?.text === text) return false;
  feed.latest = { value, text };
  for (const { onValue } of feed.listeners) onValue(value);
  return true;
}
