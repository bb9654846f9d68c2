import pino, { type Logger } from 'pino';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** What a part needs of a logger; pino's fits. */
export type Log = Pick<Logger, LogLevel>;

/** What secrets look like; nothing that does may reach a log. */
const SECRETS = /\b(?:[rs]k_(?:test|live)|whsec|vk)_[A-Za-z0-9_]+/g;

/** JSON lines on stderr, secrets redacted whatever field they stand in. */
export function createLogger(level: LogLevel): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: {
        streamWrite: (line: string) => line.replace(SECRETS, '[redacted]'),
      },
    },
    pino.destination({ dest: 2, sync: false }),
  );
}
