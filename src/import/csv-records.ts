import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { CsvError, parse } from 'csv-parse';

/** One record and the line on which it begins (1 is the first line of the file). */
export type CsvRecord = { readonly line: number; readonly fields: readonly string[] };

/** The file cannot be read as CSV, or not at all. The message says what to do about it. */
export class UnreadableCsv extends Error {
  override readonly name = 'UnreadableCsv';
  readonly line: number;

  constructor(line: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.line = line;
  }
}

export type CsvSource = {
  /** To be read once, to its end. Throws `UnreadableCsv`. */
  records(): AsyncGenerator<CsvRecord>;
  /** Of all bytes; complete when `records` has ended. */
  sha256(): string;
};

// Bounds what a quote that is never closed can pull into memory; a customer needs some 200 bytes.
const MAX_RECORD_BYTES = 65_536;

const LINE_BREAK = /\r\n|\n|\r/g;

/** Opens a file, or takes a stream (standard input). Memory stays constant however long it is. */
export async function openCsv(input: string | Readable): Promise<CsvSource> {
  const source = typeof input === 'string' ? await openFile(input) : input;
  const hash = createHash('sha256');
  return { records: () => readRecords(source, hash), sha256: () => hash.copy().digest('hex') };
}

async function openFile(path: string): Promise<Readable> {
  try {
    const file = await open(path);
    return file.createReadStream();
  } catch (error) {
    throw asUnreadable(error, path);
  }
}

const FILE_PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'reading it is not allowed',
};

function asUnreadable(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || !('code' in error)) return error;
  const reason = FILE_PROBLEMS[String(error.code)];
  if (reason === undefined) return error;
  const where = path === '' ? 'the input' : path;
  return new UnreadableCsv(0, `cannot read ${where}: ${reason}`, { cause: error });
}

async function* readRecords(
  source: Readable,
  hash: ReturnType<typeof createHash>,
): AsyncGenerator<CsvRecord> {
  const reader = recordReader();
  try {
    for await (const bytes of watched(source, hash)) {
      await reader.write(bytes);
      yield* reader.take();
    }
    await reader.end();
    yield* reader.take();
  } catch (error) {
    // The lines before the broken one are still told about.
    yield* reader.take();
    throw explained(error, reader.endLine() + 1);
  }
}

/**
 * The parser, without its output stream: that one drops what it holds when a later line is broken,
 * and how much that is depends on timing.
 */
function recordReader() {
  let read: CsvRecord[] = [];
  let endLine = 0;
  // The parser counts a CRLF inside quotes as two lines.
  let extraLines = 0;
  const parser = parse({
    bom: true,
    // Told by line number instead of ending the file.
    relax_column_count: true,
    skip_empty_lines: true,
    record_delimiter: ['\r\n', '\n', '\r'],
    max_record_size: MAX_RECORD_BYTES,
    on_record: (fields: string[], { lines }) => {
      const breaks = fields.flatMap((field) => field.match(LINE_BREAK) ?? []);
      extraLines += breaks.filter((lineBreak) => lineBreak === '\r\n').length;
      endLine = lines - extraLines;
      read.push({ line: endLine - breaks.length, fields });
      return null;
    },
  });
  // Errors reach the callbacks below; without a listener they would end the process as well.
  parser.on('error', () => {});
  return {
    write: (bytes: Buffer) =>
      new Promise<void>((resolve, reject) => {
        parser.write(bytes, settle(resolve, reject));
      }),
    end: () =>
      new Promise<void>((resolve, reject) => {
        parser.end(settle(resolve, reject));
      }),
    take(): CsvRecord[] {
      const taken = read;
      read = [];
      return taken;
    },
    endLine: () => endLine,
  };
}

function settle(resolve: () => void, reject: (error: Error) => void) {
  return (error?: Error | null) => {
    if (error === undefined || error === null) resolve();
    else reject(error);
  };
}

async function* watched(
  chunks: AsyncIterable<unknown>,
  hash: ReturnType<typeof createHash>,
): AsyncGenerator<Buffer> {
  let first = true;
  for await (const chunk of chunks) {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk));
    if (first && (bytes.subarray(0, 2).equals(UTF16_LE) || bytes.subarray(0, 2).equals(UTF16_BE))) {
      throw new UnreadableCsv(1, 'the file is UTF-16; save it as UTF-8');
    }
    first = false;
    hash.update(bytes);
    yield bytes;
  }
}

const UTF16_LE = Buffer.from([0xff, 0xfe]);
const UTF16_BE = Buffer.from([0xfe, 0xff]);

function explained(error: unknown, line: number): unknown {
  if (!(error instanceof CsvError)) return asUnreadable(error, '');
  return new UnreadableCsv(line, PARSER_PROBLEMS[error.code] ?? 'the line is not CSV', {
    cause: error,
  });
}

const NEVER_CLOSED = 'a quote opened here is never closed';
const QUOTE_INSIDE =
  'a quote stands in the middle of a field; put the whole field in quotes and write "" for a quote inside';

const PARSER_PROBLEMS: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: NEVER_CLOSED,
  CSV_MAX_RECORD_SIZE: NEVER_CLOSED,
  INVALID_OPENING_QUOTE: QUOTE_INSIDE,
  CSV_INVALID_CLOSING_QUOTE: QUOTE_INSIDE,
};
