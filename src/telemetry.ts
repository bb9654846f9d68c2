import {
  DefaultLogger,
  makeTelemetryFilterString,
  Runtime,
  type LogEntry,
  type LogLevel,
} from '@temporalio/worker';
import type { Logger } from 'pino';
import { createLogger } from './log.ts';

export interface TelemetryOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  /** serves Temporal's and our own metrics to Prometheus on loopback; none when not set */
  readonly metricsPort?: number | undefined;
}

/**
 * Routes the SDK's logs through pino to stderr, redacted, and opens the metrics endpoint. Once per
 * process, before the first connection.
 */
export function installTelemetry(options: TelemetryOptions): Logger {
  const logger = createLogger(options.level);
  Runtime.install({
    // Left to itself the SDK stops every worker of the process at the first signal, in no order.
    shutdownSignals: [],
    logger: new DefaultLogger(LEVELS[options.level], (entry) => forward(logger, entry)),
    telemetryOptions: {
      // Left to itself the SDK's core writes to stdout, where a command's --json is.
      logging: {
        forward: {},
        filter: makeTelemetryFilterString({ core: options.level === 'error' ? 'ERROR' : 'WARN' }),
      },
      ...(options.metricsPort === undefined
        ? {}
        : { metrics: { prometheus: { bindAddress: `127.0.0.1:${options.metricsPort}` } } }),
    },
  });
  return logger;
}

const LEVELS: Readonly<Record<TelemetryOptions['level'], LogLevel>> = {
  debug: 'DEBUG',
  info: 'INFO',
  warn: 'WARN',
  error: 'ERROR',
};

function forward(logger: Logger, entry: LogEntry): void {
  const level = entry.level.toLowerCase();
  const fields = { ...entry.meta };
  switch (level) {
    case 'trace':
    case 'debug':
    case 'info':
    case 'warn':
    case 'error':
      logger[level](fields, entry.message);
      return;
    default:
      logger.info(fields, entry.message);
  }
}
