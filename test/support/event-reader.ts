/** One event of a stream, its data parsed. */
interface ServerSentEvent {
  readonly event: string;
  readonly data: unknown;
}

/** Reads a stream of server-sent events. */
export interface EventReader {
  readonly status: number;
  readonly headers: Headers;
  /** The next event; null when the stream has ended. */
  next(): Promise<ServerSentEvent | null>;
  /** all that came, comments included */
  text(): string;
  /** Closes the connection. */
  leave(): void;
}

/** Opens a stream with a token. */
export async function openEvents(url: string, path: string, token: string): Promise<EventReader> {
  const gone = new AbortController();
  const answer = await fetch(new URL(path, url), {
    headers: { authorization: `Bearer ${token}` },
    signal: gone.signal,
  });
  let text = '';
  let rest = '';
  const events: ServerSentEvent[] = [];
  let ended = false;
  let woken = Promise.withResolvers<void>();
  const wake = (): void => {
    woken.resolve();
    woken = Promise.withResolvers<void>();
  };
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder();
    for await (const chunk of answer.body ?? []) {
      const came = decoder.decode(chunk, { stream: true });
      text += came;
      rest += came;
      const blocks = rest.split('\n\n');
      rest = blocks.pop() ?? '';
      events.push(...blocks.flatMap((block) => eventOf(block)));
      wake();
    }
  };
  void read()
    .catch(() => {})
    .finally(() => {
      ended = true;
      wake();
    });
  return {
    status: answer.status,
    headers: answer.headers,
    text: () => text,
    async next() {
      for (;;) {
        const event = events.shift();
        if (event !== undefined) return event;
        if (ended) return null;
        await woken.promise;
      }
    },
    leave: () => gone.abort(),
  };
}

/** The event of a block; none for a comment, or for what sets the pause of a browser. */
function eventOf(block: string): ServerSentEvent[] {
  const field = (name: string): string | undefined =>
    new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
  const event = field('event');
  return event === undefined ? [] : [{ event, data: JSON.parse(field('data') ?? 'null') }];
}
