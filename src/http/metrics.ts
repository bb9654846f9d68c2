import type { FastifyInstance } from 'fastify';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

export interface HttpMetrics {
  /** Counts every request of an application; call before its routes are registered. */
  watch(app: FastifyInstance): void;
  countIdempotency(event: string): void;
  showStreams(open: number): void;
  /** The text that Prometheus reads. */
  render(): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** Seconds: a stored response, a few statements, an order that a worker answers. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const LABELS = ['method', 'route', 'status'] as const;

/** Metrics of one server process. Labels are routes as they were registered, never paths: no caller can make new ones. */
export function httpMetrics(): HttpMetrics {
  const registry = new Registry();
  const registers = [registry];
  const requests = new Counter({
    name: 'chargeonce_http_requests_total',
    help: 'Requests that were answered',
    labelNames: LABELS,
    registers,
  });
  const seconds = new Histogram({
    name: 'chargeonce_http_request_seconds',
    help: 'From the head of the request to the end of its answer; streams of events are left out',
    labelNames: ['method', 'route'],
    buckets: BUCKETS,
    registers,
  });
  const idempotency = new Counter({
    name: 'chargeonce_http_idempotency_total',
    help: 'What became of requests with an Idempotency-Key',
    labelNames: ['event'],
    registers,
  });
  const streams = new Gauge({
    name: 'chargeonce_http_event_streams',
    help: 'Streams of server-sent events that are open',
    registers,
  });
  return {
    watch(app) {
      app.addHook('onResponse', async (request, reply) => {
        const { url, config } = request.routeOptions;
        const route = request.is404 || url === undefined ? 'unknown' : url;
        // Node takes methods that no route has; they share a label.
        const method = request.is404 ? 'any' : request.method;
        requests.inc({ method, route, status: String(reply.statusCode) });
        if (config.stream !== true) seconds.observe({ method, route }, reply.elapsedTime / 1000);
      });
    },
    countIdempotency: (event) => idempotency.inc({ event }),
    showStreams: (open) => streams.set(open),
    async render() {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** stays open for as long as its reader likes */
    readonly stream?: boolean;
  }
}
