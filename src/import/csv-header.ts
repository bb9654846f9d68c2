import type { ImportProblem } from './problem-list.ts';

const REQUIRED_COLUMNS = [
  'customer_id',
  'stripe_customer_id',
  'payment_method_id',
  'amount',
  'currency',
] as const;

const OPTIONAL_COLUMNS = ['description', 'active'] as const;

export type Column = (typeof REQUIRED_COLUMNS)[number] | (typeof OPTIONAL_COLUMNS)[number];

const KNOWN: ReadonlySet<string> = new Set([...REQUIRED_COLUMNS, ...OPTIONAL_COLUMNS]);

export type ParsedHeader =
  | { readonly ok: true; readonly columns: readonly Column[] }
  | { readonly ok: false; readonly problems: readonly ImportProblem[] };

/** Reads the first line; the order of the columns is free, their names are not. */
export function parseHeader(fields: readonly string[], line: number): ParsedHeader {
  const separator = wrongSeparator(fields);
  if (separator !== undefined) {
    const message = `the columns are separated by ${separator}; save the file with commas`;
    return { ok: false, problems: [{ line, column: '', message }] };
  }
  const columns = fields.filter((name) => isColumn(name));
  const problems = headerProblems(fields, columns).map((problem) => ({ line, ...problem }));
  return problems.length === 0 ? { ok: true, columns } : { ok: false, problems };
}

function isColumn(name: string): name is Column {
  return KNOWN.has(name);
}

function wrongSeparator(fields: readonly string[]): string | undefined {
  const [only] = fields;
  if (only === undefined || fields.length > 1) return undefined;
  if (only.includes(';')) return 'semicolons';
  return only.includes('\t') ? 'tabs' : undefined;
}

function headerProblems(
  fields: readonly string[],
  columns: readonly Column[],
): Omit<ImportProblem, 'line'>[] {
  const list = (names: readonly string[]) => names.join(', ');
  const unknown = fields
    .filter((name) => !isColumn(name))
    .map((name) => ({
      column: shortened(name),
      message: `unknown column; known are ${list([...KNOWN])}`,
    }));
  const repeated = columns
    .filter((name, index) => columns.indexOf(name) !== index)
    .map((column) => ({ column, message: 'the column is there twice' }));
  const missing = REQUIRED_COLUMNS.filter((name) => !columns.includes(name)).map((column) => ({
    column,
    message: `the column is missing; needed are ${list(REQUIRED_COLUMNS)}`,
  }));
  return [...unknown, ...repeated, ...missing];
}

// A file without a header has data here, which may be anything; show a glimpse only.
function shortened(name: string): string {
  return name.length > 20 ? `${name.slice(0, 20)}…` : name;
}
