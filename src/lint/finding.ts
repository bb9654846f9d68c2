import type { RuleId } from './rules.ts';

export interface Position {
  /** from 1 */
  readonly line: number;
  /** from 1, in UTF-16 units, as editors count */
  readonly column: number;
}

/** One place of a file that a rule complains about. */
export interface Finding {
  readonly rule: RuleId;
  readonly severity: 'error' | 'warning';
  readonly start: Position;
  readonly end: Position;
  /** what was found here */
  readonly message: string;
  /** the first line of the place, as it stands in the file */
  readonly excerpt: string;
}

/** Before lines and suppressions: a place in the text. */
export interface RawFinding {
  readonly rule: RuleId;
  readonly severity: 'error' | 'warning';
  readonly node: { readonly start: number; readonly end: number };
  readonly message: string;
}
