import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { LintReport } from './lint-files.ts';
import { RULES } from './rules.ts';

export interface SarifOptions {
  readonly version: string;
  /** what relative paths are relative to */
  readonly folder: string;
}

/** The report as a SARIF 2.1.0 log, which code hosts and editors read. */
export function sarifReport(report: LintReport, { version, folder }: SarifOptions): object {
  const rules = Object.values(RULES);
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'chargeonce lint',
            semanticVersion: version,
            rules: rules.map(({ id, title, harm, remedy, severity, page }) => ({
              id,
              name: pascalCase(id),
              shortDescription: { text: `${title}.` },
              fullDescription: { text: harm },
              help: { text: `${harm} Instead: ${remedy} See it happen: ${page}` },
              defaultConfiguration: { level: severity },
              properties: { tags: ['idempotency', 'payments', 'reliability'] },
            })),
          },
        },
        columnKind: 'utf16CodeUnits',
        originalUriBaseIds: {
          SRCROOT: { uri: `${pathToFileURL(folder).href.replace(/\/$/, '')}/` },
        },
        invocations: [
          {
            executionSuccessful: !report.interrupted,
            toolExecutionNotifications: report.problems.map(({ file, line, column, message }) => ({
              level: 'error',
              message: { text: message },
              locations: [
                {
                  physicalLocation: {
                    artifactLocation: artifact(file, folder),
                    region: { startLine: line, startColumn: column },
                  },
                },
              ],
            })),
          },
        ],
        results: report.findings.map(({ rule, severity, file, start, end, message, excerpt }) => ({
          ruleId: rule,
          ruleIndex: rules.findIndex(({ id }) => id === rule),
          level: severity,
          message: { text: `${message}. ${RULES[rule].remedy}` },
          locations: [
            {
              physicalLocation: {
                artifactLocation: artifact(file, folder),
                region: {
                  startLine: start.line,
                  startColumn: start.column,
                  endLine: end.line,
                  endColumn: end.column,
                  snippet: { text: excerpt },
                },
              },
            },
          ],
        })),
      },
    ],
  };
}

function artifact(file: string, folder: string): { uri: string; uriBaseId?: string } {
  const relative = path.relative(folder, path.resolve(folder, file));
  if (relative.startsWith('..') || path.isAbsolute(relative))
    return { uri: pathToFileURL(path.resolve(folder, file)).href };
  const uri = relative
    .split(path.sep)
    .map((part) => encodeURIComponent(part))
    .join('/');
  return { uri, uriBaseId: 'SRCROOT' };
}

function pascalCase(id: string): string {
  return id.replaceAll(/(?:^|-)(\w)/g, (_whole, letter: string) => letter.toUpperCase());
}
