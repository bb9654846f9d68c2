import Table from 'cli-table3';
import { assertNever } from '../domain/assert-never.ts';
import { formatAmountMajor } from '../domain/money.ts';
import { parseCurrency } from '../domain/currencies.ts';
import { FINDING_TITLES, type AuditReport, type Finding, type WitnessState } from './report.ts';

/** Rows a person reads on a screen; `--json` has more of them. */
const SHOWN = 25;

/** The report for people: the verdict in one sentence, the numbers, then each row to look at. */
export function formatAuditReport(report: AuditReport): string {
  // A fail stands whatever else is unknown; what was not heard is still said.
  const besides = report.verdict === 'fail' ? report.unknowns.map((why) => `Besides: ${why}.`) : [];
  const parts = [verdictSentence(report), ...besides, '', numbers(report), ...findings(report), ''];
  return parts.join('\n');
}

function verdictSentence(report: AuditReport): string {
  const period =
    report.namespace === 'base' ? report.period : `${report.period} (${report.namespace})`;
  const who = `${report.customers} customer${report.customers === 1 ? '' : 's'}`;
  switch (report.verdict) {
    case 'pass':
      return `PASS: for ${period}, ${witnessNames(report)} agree on all ${who}: nobody charged twice, nobody lost.`;
    case 'fail':
      return (
        `FAIL: for ${period}, ${report.doubleCharged} charged twice, ${report.lost} lost; ` +
        `${disagreements(report)} to look at among ${who}, named below.`
      );
    case 'unknown':
      return `UNKNOWN: for ${period} nothing can be promised: ${report.unknowns.join('; ')}.`;
    default:
      return assertNever(report.verdict);
  }
}

function disagreements(report: AuditReport): string {
  return `${report.findingsTotal} finding${report.findingsTotal === 1 ? '' : 's'}`;
}

function witnessNames({ witnesses }: AuditReport): string {
  const heard = Object.entries(witnesses).filter(([, witness]) => witness.status === 'read');
  return heard.map(([name]) => (name === 'temporal' ? 'Temporal' : name)).join(', ');
}

function numbers(report: AuditReport): string {
  const table = new Table({ style: { head: [], border: [], compact: true } });
  const { witnesses } = report;
  const counts = [
    'charged',
    'declined',
    'indeterminate',
    'skipped',
    'blocked',
    'misconfigured',
    'unfinished',
  ] as const;
  const text = counts.filter((name) => report[name] > 0).map((name) => `${report[name]} ${name}`);
  table.push(
    ['customers', `${report.customers}${text.length === 0 ? '' : `: ${text.join(', ')}`}`],
    ['charged twice', String(report.doubleCharged)],
    ['lost', String(report.lost)],
    ['charged in all', amounts(report.amountMinorByCurrency)],
    ['database', witnessWords(witnesses.database, 'customers')],
    ['provider', witnessWords(witnesses.provider, 'PaymentIntents')],
    ['Temporal', witnessWords(witnesses.temporal, 'histories')],
    ['took', `${report.seconds} s`],
  );
  return table.toString();
}

function amounts(amountMinorByCurrency: Readonly<Record<string, number>>): string {
  const all = Object.entries(amountMinorByCurrency).map(([code, amountMinor]) => {
    const parsed = parseCurrency(code);
    return parsed.ok
      ? `${formatAmountMajor(amountMinor, parsed.currency)} ${code.toUpperCase()}`
      : `${amountMinor} ${code}`;
  });
  return all.length === 0 ? 'nothing' : all.join('\n');
}

function witnessWords(witness: WitnessState, what: string): string {
  switch (witness.status) {
    case 'read': {
      const gone = witness.absent === 0 ? '' : `, ${witness.absent} customers without`;
      return `${witness.records} ${what}${gone} (${witness.source})`;
    }
    case 'unreadable':
      return `NOT READ: ${witness.reason}`;
    case 'not_asked':
      return 'not asked';
    default:
      return assertNever(witness);
  }
}

function findings(report: AuditReport): string[] {
  const shown = report.findings.slice(0, SHOWN);
  if (shown.length === 0) return [];
  const lines = shown.flatMap(findingLines);
  const more = report.findingsTotal - shown.length;
  const kinds = Object.entries(report.findingsByKind).map(([kind, count]) => `${count} ${kind}`);
  if (more > 0) lines.push(`… and ${more} more. All by kind: ${kinds.join(', ')}`);
  return ['', ...lines];
}

function findingLines(finding: Finding): string[] {
  const who = finding.customerId ?? 'the period';
  return [
    `${finding.severity.toUpperCase()}  ${who}: ${FINDING_TITLES[finding.kind]} [${finding.kind}]`,
    `    ${finding.message}`,
    `    database: ${finding.database} | provider: ${finding.provider} | Temporal: ${finding.temporal}`,
  ];
}
