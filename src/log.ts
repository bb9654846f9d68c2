import pino, { type Logger } from 'pino';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** What a part needs of a logger; pino's fits. */
export type Log = Pick<Logger, LogLevel>;

/**
 * What secrets look like; nothing that does may reach a log. Of a vault key the part before its secret is its name
 * and may; a chat's incoming hook has its secret in the path.
 */
const SECRETS =
  /\b(?:(?:[rs]k_(?:test|live)|whsec|vrt|vat)_[A-Za-z0-9_]+|cot_(?![0-9a-f]{16}(?![A-Za-z0-9_]))[A-Za-z0-9_]+|vk_(?!(?:test|live)_[0-9a-f]{16}(?![A-Za-z0-9_]))[A-Za-z0-9_]+|hooks\.slack\.com\/[A-Za-z0-9_/]+)/g;

/** Text as it may stand in a log or an answer, secrets replaced. */
export function redact(text: string): string {
  return text.replace(SECRETS, '[redacted]');
}

/** JSON lines on stderr, secrets redacted whatever field they stand in. */
export function createLogger(level: LogLevel): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: {
        streamWrite: redact,
      },
    },
    pino.destination({ dest: 2, sync: false }),
  );
}
