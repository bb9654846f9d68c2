import type { Readable } from 'node:stream';
import { sql } from 'kysely';
import type { Kysely, Transaction } from 'kysely';
import { writeAuditEntry } from '../db/audit-log.ts';
import type { DB } from '../db/schema.ts';
import { parseHeader } from './csv-header.ts';
import { openCsv, UnreadableCsv } from './csv-records.ts';
import type { CsvRecord, CsvSource } from './csv-records.ts';
import { checkRow } from './customer-row.ts';
import { createProblemList } from './problem-list.ts';
import type { ImportProblem, ProblemList } from './problem-list.ts';
import { createStaging, mergeStaged, mergeWarnings, reportDuplicates, stage } from './staging.ts';
import type { StagedLine } from './staging.ts';

export type ImportResult =
  | {
      readonly ok: true;
      readonly rows: number;
      readonly inserted: number;
      readonly updated: number;
      readonly unchanged: number;
      readonly warnings: readonly string[];
      /** Of the file's bytes; the audit log has it too. */
      readonly sha256: string;
    }
  | {
      readonly ok: false;
      /** In the order of the file, at most a thousand. */
      readonly problems: readonly ImportProblem[];
      readonly problemCount: number;
      /** nothing is wrong with the file: another import is being written right now */
      readonly busy: boolean;
    };

export type ImportOptions = {
  readonly db: Kysely<DB>;
  /** A path, or a stream of bytes. */
  readonly input: string | Readable;
  /** Who asks for it, for the audit log. */
  readonly actor: string;
  /** Why, for the audit log. */
  readonly reason?: string;
  /** Everything is checked and counted, and nothing is kept. */
  readonly dryRun?: boolean;
};

const BATCH_ROWS = 1000;

// Ten times what one run is built for; a longer file is a mistake or needs to be split.
const MAX_ROWS = 1_000_000;

// Reading the file happens inside the transaction, which holds no lock until the merge; a slow
// pipe may pause longer than the pool allows a transaction that holds locks.
const MAX_PAUSE_OF_INPUT_MS = 60_000;

/**
 * Imports customers from CSV: all lines or none, in one transaction. Every bad line is reported.
 * Called twice with one file, the second call changes nothing; two at once: one is told to wait.
 * Customers that the file does not name stay as they are, and planned periods are not touched.
 */
export async function importCustomers(options: ImportOptions): Promise<ImportResult> {
  try {
    const source = await openCsv(options.input);
    // Nothing but the temporary table has been written when there are problems, so committing
    // then is the same as rolling back.
    return await options.db.transaction().execute(async (trx) => {
      const result = await importInTransaction(trx, source, options);
      if (options.dryRun === true && result.ok) throw new DryRun(result);
      return result;
    });
  } catch (error) {
    if (error instanceof UnreadableCsv) return refusedFile(error.line, error.message);
    if (error instanceof DryRun) return error.result;
    throw error;
  }
}

/** Thrown to roll back what was only to be tried. */
class DryRun extends Error {
  override readonly name = 'DryRun';
  readonly result: ImportResult;

  constructor(result: ImportResult) {
    super('rolled back: it was to be tried only');
    this.result = result;
  }
}

async function importInTransaction(
  trx: Transaction<DB>,
  source: CsvSource,
  { actor, reason }: ImportOptions,
): Promise<ImportResult> {
  await sql`SELECT set_config('idle_in_transaction_session_timeout', ${String(MAX_PAUSE_OF_INPUT_MS)}, true)`.execute(
    trx,
  );
  await createStaging(trx);
  const problems = createProblemList();
  const { rows, lastLine } = await stageFile(trx, source, problems);
  await reportDuplicates(trx, problems);
  if (problems.count() > 0) {
    return {
      ok: false,
      problems: problems.listed(),
      problemCount: problems.count(),
      busy: false,
    };
  }
  // Two imports that merge different lines in turn could leave a mixture of both files.
  if (!(await onlyImport(trx))) {
    const message = 'another import is being written right now; try again when it is done';
    return { ...refusedFile(0, message), busy: true };
  }
  const counts = await mergeStaged(trx, lastLine);
  const sha256 = source.sha256();
  const unchanged = rows - counts.inserted - counts.updated;
  const result = { rows, ...counts, unchanged, sha256 };
  await writeAuditEntry(trx, {
    actor,
    action: 'customers.imported',
    ...(reason === undefined ? {} : { reason }),
    details: result,
  });
  return { ok: true, ...result, warnings: await mergeWarnings(trx) };
}

function refusedFile(line: number, message: string) {
  const problems: ImportProblem[] = [{ line, column: '', message }];
  return { ok: false, problems, problemCount: 1, busy: false } as const;
}

async function stageFile(
  trx: Transaction<DB>,
  source: CsvSource,
  problems: ProblemList,
): Promise<{ readonly rows: number; readonly lastLine: number }> {
  const records = source.records();
  const header = await readHeader(records, problems);
  let rows = 0;
  let lastLine = 0;
  let batch: StagedLine[] = [];
  try {
    for await (const { line, fields } of header === undefined ? [] : records) {
      rows += 1;
      lastLine = line;
      if (rows > MAX_ROWS) {
        throw new UnreadableCsv(line, `the file has more than ${MAX_ROWS} lines; split it`);
      }
      const checked = checkRow(header ?? [], fields);
      for (const problem of checked.problems) problems.add({ line, ...problem });
      batch.push({ line, customerId: checked.customerId, row: checked.row });
      if (batch.length === BATCH_ROWS) {
        await stage(trx, batch);
        batch = [];
      }
    }
  } catch (error) {
    // What was read so far has been checked; its problems are told together with this one.
    if (!(error instanceof UnreadableCsv)) throw error;
    problems.add({ line: error.line, column: '', message: error.message });
  }
  await stage(trx, batch);
  if (header !== undefined && rows === 0 && problems.count() === 0) {
    problems.add({ line: 0, column: '', message: 'no customers: the file has only a header' });
  }
  return { rows, lastLine };
}

async function readHeader(records: AsyncGenerator<CsvRecord>, problems: ProblemList) {
  const first = await records.next();
  if (first.done === true) {
    problems.add({ line: 0, column: '', message: 'no customers: the file is empty' });
    return undefined;
  }
  const header = parseHeader(first.value.fields, first.value.line);
  if (header.ok) return header.columns;
  for (const problem of header.problems) problems.add(problem);
  await records.return(undefined);
  return undefined;
}

async function onlyImport(trx: Transaction<DB>): Promise<boolean> {
  const { rows } = await sql<{ locked: boolean }>`
    SELECT pg_try_advisory_xact_lock(hashtextextended('chargeonce.import-customers', 0)) AS locked`.execute(
    trx,
  );
  return rows[0]?.locked === true;
}
