import { lintSource } from '../../src/lint/index.ts';

/** What is found in a text, as `severity rule: message`. */
export function findingsOf(code: string, fileName = 'a.ts'): string[] {
  const report = lintSource(fileName, code);
  if (report.kind === 'unparsed') throw new Error(`${report.line}: ${report.message}`);
  if (report.kind === 'passed') return [];
  return report.findings.map(({ severity, rule, message }) => `${severity} ${rule}: ${message}`);
}
