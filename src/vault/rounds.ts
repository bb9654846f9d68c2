import { setTimeout as sleep } from 'node:timers/promises';

export interface Rounds {
  /** Begins no more of them and waits for the one under way, for at most so long. */
  stop(patienceMs: number): Promise<void>;
}

/**
 * Runs `work` again and again, a pause after each end, the first one after a pause. One that fails is told to
 * `onError` and the next one comes. Several processes do not wait for each other.
 */
export function startRounds(
  work: () => Promise<unknown>,
  options: { readonly pauseMs: number; readonly onError: (error: unknown) => void },
): Rounds {
  const stopped = new AbortController();
  const { signal } = stopped;
  const once = async (): Promise<void> => {
    try {
      await work();
    } catch (error) {
      options.onError(error);
    }
  };
  const loop = (async () => {
    while (!signal.aborted) {
      await sleep(options.pauseMs, undefined, { signal }).catch(() => {});
      if (!signal.aborted) await once();
    }
  })();
  return {
    async stop(patienceMs) {
      stopped.abort();
      const patience = new AbortController();
      const late = sleep(patienceMs, undefined, { signal: patience.signal }).catch(() => {});
      await Promise.race([loop, late]);
      patience.abort();
    },
  };
}
