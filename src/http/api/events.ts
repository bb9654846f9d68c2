import { Readable } from 'node:stream';
import { parseBillingPeriod } from '../../domain/billing-period.ts';
import type { RunRef } from '../../domain/ids.ts';
import { parseBillingNamespace } from '../../domain/namespace.ts';
import type { ApiApp, ApiDeps } from './deps.ts';
import { Feeds } from './feeds.ts';
import { problem } from './problems.ts';
import { unknownText } from './routes/runs.ts';
import { isOver, readProgress } from './run-view.ts';
import { namespaceQuery, runParams } from './schemas/common.ts';
import { progressEvents, type RunProgressAnswer } from './schemas/runs.ts';

export interface EventLimits {
  /** streams over all runs of this process */
  readonly streams: number;
  readonly heartbeatMs: number;
  readonly onCount?: (streams: number) => void;
}

/** A client that does not read is let go of, before it fills the memory. */
const UNREAD_BYTES = 256 * 1024;
/** How long a browser waits before it comes again. */
const RETRY_MS = 3_000;

/** `GET /v1/runs/{period}/events`: the progress of a run as server-sent events, until it is over or the client leaves. */
export function registerRunEvents(app: ApiApp, deps: ApiDeps, limits: EventLimits): void {
  const feeds = new Feeds<RunProgressAnswer>({
    read: (key) => readProgress(deps, runOf(key)),
    isLast: isOver,
    maxListeners: limits.streams,
    onError: (error) => deps.log.warn({ err: error }, 'the progress of a run cannot be read now'),
    ...(limits.onCount === undefined ? {} : { onCount: limits.onCount }),
  });
  // Before requests are drained: a stream would keep its socket busy for ever.
  app.addHook('preClose', async () => feeds.close());
  app.get(
    '/runs/:period/events',
    {
      // A HEAD would open a stream that nobody reads or closes.
      exposeHeadRoute: false,
      config: { access: 'viewer', stream: true, problems: ['run-unknown', 'too-many-streams'] },
      schema: {
        tags: ['runs'],
        summary: 'Follow a run as server-sent events',
        description:
          'event: progress whenever something changed, with the object of GET /v1/runs/{period} as data; event: end when the run is over, then the stream closes. Comments keep it open. Each event is complete: nothing is lost by coming again.',
        params: runParams,
        querystring: namespaceQuery,
        response: { 200: progressEvents },
      },
    },
    async (request, reply) => {
      const run = { period: request.params.period, namespace: request.query.namespace };
      if ((await readProgress(deps, run)) === null)
        return problem(reply, 'run-unknown', unknownText(run));
      const stream = new EventStream(limits.heartbeatMs);
      const leave = feeds.listen(keyOf(run), {
        onValue: (progress) => stream.event('progress', progress),
        onEnd: () => stream.end(),
      });
      if (leave === null)
        return problem(reply, 'too-many-streams', {
          detail: `this server keeps at most ${limits.streams} streams open`,
          retryAfterSeconds: 30,
        });
      stream.once('close', leave);
      return reply
        .header('Content-Type', 'text/event-stream; charset=utf-8')
        .header('X-Accel-Buffering', 'no')
        .send(stream);
    },
  );
}

function keyOf({ namespace, period }: RunRef): string {
  return `${namespace} ${period}`;
}

function runOf(key: string): RunRef {
  const [first = '', second = ''] = key.split(' ');
  const namespace = parseBillingNamespace(first);
  const period = parseBillingPeriod(second);
  if (!namespace.ok || !period.ok) throw new Error(`no key of a feed: ${key}`);
  return { namespace: namespace.namespace, period: period.period };
}

/** A body of server-sent events. Destroyed by its reader going away, or when it does not read. */
class EventStream extends Readable {
  readonly #heartbeat: NodeJS.Timeout;

  constructor(heartbeatMs: number) {
    super({ highWaterMark: UNREAD_BYTES });
    this.#heartbeat = setInterval(() => this.#write(':\n\n'), heartbeatMs);
    this.#write(`retry: ${RETRY_MS}\n\n`);
  }

  event(name: string, data: object): void {
    this.#write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  end(): void {
    if (this.destroyed) return;
    this.event('end', {});
    this.push(null);
  }

  override _read(): void {}

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearInterval(this.#heartbeat);
    done(error);
  }

  #write(text: string): void {
    if (this.destroyed || this.readableEnded) return;
    if (!this.push(text) && this.readableLength > UNREAD_BYTES) this.destroy();
  }
}
