import type { FastifyReply } from 'fastify';
import type { RawTap } from './raw-tap.ts';

/** What has come of a handler's answer so far. */
interface Answering {
  readonly answering: boolean;
  readonly settled: boolean;
  readonly tap: RawTap | null;
}

/**
 * Follows a handler that is about to be called, to an end that the framework may not see, since its client can be gone
 * by then. `giveUp` comes when nothing is known of the handler for so long after that. Answers what to do with its
 * promise.
 */
export function followHandler(
  reply: FastifyReply,
  state: Answering,
  { patienceMs, giveUp }: { readonly patienceMs: number; readonly giveUp: () => void },
): (result: Promise<unknown>) => Promise<unknown> {
  let course: 'unknown' | 'atWork' | 'over' = 'unknown';
  const isSilent = (): boolean => !state.answering && !reply.sent && state.tap?.began !== true;
  const gone = (): void => {
    // At work it keeps its key, however long it takes; its end comes by here again.
    if (state.settled || course === 'atWork') return;
    // A promise of nothing is an empty answer; the framework sends none to a client that is gone.
    if (course === 'over' && isSilent()) void reply.send();
    else setTimeout(giveUp, patienceMs).unref();
  };
  reply.raw.once('close', () => setImmediate(gone));
  let answersLater = false;
  onAwaited(reply, () => (answersLater = true));
  return (result) => {
    course = 'atWork';
    const end = (): void => {
      // Who returned the reply has promised an answer, and given none yet.
      course = answersLater ? 'unknown' : 'over';
      if (reply.raw.destroyed) setImmediate(gone);
    };
    void result.then(end, end);
    // An answer that nobody waited for is under way: the framework would send an empty one in its place.
    return result.then((value) =>
      value === undefined && (state.answering || state.settled) ? reply : value,
    );
  };
}

/** A handler that returns or awaits its reply says by it that the answer comes from somewhere else. */
function onAwaited(reply: FastifyReply, say: () => void): void {
  const then = reply.then.bind(reply);
  // oxlint-disable-next-line unicorn/no-thenable -- it is one already
  Object.defineProperty(reply, 'then', {
    configurable: true,
    value: (...args: Parameters<typeof then>) => {
      say();
      then(...args);
    },
  });
}
