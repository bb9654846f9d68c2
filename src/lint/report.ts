import type { LintReport } from './lint-files.ts';
import { RULES, type Rule, type RuleId } from './rules.ts';

export interface Counts {
  readonly errors: number;
  readonly warnings: number;
}

export function countsOf({ findings }: LintReport): Counts {
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  return { errors, warnings: findings.length - errors };
}

/** The rules that found something, in the order of their table. */
function rulesFound({ findings }: LintReport): Rule[] {
  const found = new Set<RuleId>(findings.map(({ rule }) => rule));
  return Object.values(RULES).filter(({ id }) => found.has(id));
}

/** One object for programs. */
export function jsonReport(report: LintReport): object {
  const { files, suppressed, interrupted, problems } = report;
  return {
    files,
    ...countsOf(report),
    suppressed,
    interrupted,
    findings: report.findings.map(({ rule, severity, file, start, end, message, excerpt }) => ({
      rule,
      severity,
      file,
      line: start.line,
      column: start.column,
      endLine: end.line,
      endColumn: end.column,
      message,
      excerpt,
      remedy: RULES[rule].remedy,
      page: RULES[rule].page,
    })),
    problems,
  };
}

/** For people: the places by file, then once for each rule why and what instead. */
export function textReport(report: LintReport): string[] {
  const lines: string[] = [];
  let last = '';
  for (const { file, start, severity, rule, message, excerpt } of report.findings) {
    if (file !== last) lines.push(...(last === '' ? [] : ['']), file);
    last = file;
    const place = `${start.line}:${start.column}`.padEnd(8);
    lines.push(
      `  ${place}${severity.padEnd(9)}${rule}: ${message}`,
      `          ${clipped(excerpt)}`,
    );
  }
  for (const { id, harm, remedy, page } of rulesFound(report))
    lines.push('', id, `  ${harm}`, `  Instead: ${remedy}`, `  See it happen: ${page}`);
  if (report.problems.length > 0) lines.push('', 'not looked at:');
  for (const { file, line, column, message } of report.problems)
    lines.push(`  ${file}:${line}:${column} ${message}`);
  if (lines.length > 0) lines.push('');
  lines.push(summaryOf(report));
  return lines;
}

function summaryOf(report: LintReport): string {
  const { errors, warnings } = countsOf(report);
  const files = new Set(report.findings.map(({ file }) => file)).size;
  const found = `${counted(errors, 'error')} and ${counted(warnings, 'warning')} in ${files} of ${counted(report.files, 'file')}`;
  const off = report.suppressed === 0 ? '' : `, ${report.suppressed} switched off by comments`;
  const broken =
    report.problems.length === 0
      ? ''
      : `, ${counted(report.problems.length, 'file')} not looked at`;
  return `${found}${off}${broken}`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function clipped(text: string): string {
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}
