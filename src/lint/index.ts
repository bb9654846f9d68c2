// What the command and tests use of the check.
export { sourceFilesAt } from './files.ts';
export { lintFiles, type LintReport } from './lint-files.ts';
export { lintSource } from './lint-source.ts';
export { countsOf, jsonReport, textReport } from './report.ts';
export { RULES } from './rules.ts';
export { sarifReport } from './sarif.ts';
