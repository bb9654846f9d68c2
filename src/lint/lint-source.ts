import { Contexts } from './contexts.ts';
import type { Finding, RawFinding } from './finding.ts';
import { Flow } from './flow.ts';
import { KeyFindings } from './key-findings.ts';
import {
  importedSinks,
  keyParametersOf,
  type ImportedKeys,
  type KeyParameter,
} from './key-parameters.ts';
import { Lines } from './lines.ts';
import { Model } from './model.ts';
import { SharedState } from './shared-state.ts';
import { Sinks } from './sinks.ts';
import { StripePosts } from './stripe-posts.ts';
import { Structure } from './structure.ts';
import { readSuppressions } from './suppressions.ts';
import { parseSource, type ParsedSource } from './syntax.ts';
import { isTestFile, isWorthReading } from './words.ts';

interface ReadReport {
  readonly kind: 'read';
  readonly findings: readonly Finding[];
  readonly suppressed: number;
  /** what it exports that takes a key */
  readonly takesKeys: readonly KeyParameter[];
}

export type SourceReport =
  | ReadReport
  /** nothing in it can be found: it was not parsed */
  | { readonly kind: 'passed' }
  | {
      readonly kind: 'unparsed';
      readonly message: string;
      readonly line: number;
      readonly column: number;
    };

/**
 * Finds, in one source text, what makes an idempotency key useless. Nothing is read beside the text; what other files
 * take as keys is told by `imported`.
 */
export function lintSource(fileName: string, text: string, imported?: ImportedKeys): SourceReport {
  if (imported === undefined && !isWorthReading(text)) return { kind: 'passed' };
  const parsed = parseSource(fileName, text);
  const lines = new Lines(text);
  if (!parsed.ok) {
    const { message, offset } = parsed.problem;
    return { kind: 'unparsed', message, ...lines.position(offset) };
  }
  const found = report(parsed.source, lines, imported ?? (() => []));
  if (!isTestFile(fileName)) return found;
  return { ...found, findings: found.findings.filter(({ severity }) => severity === 'error') };
}

function report(source: ParsedSource, lines: Lines, imported: ImportedKeys): ReadReport {
  const { byLine, faulty } = readSuppressions(source.comments, lines);
  const model = new Model(source);
  const raw: RawFinding[] = [
    ...findAll(model, imported),
    ...faulty.map(({ start, end, message }) => ({
      rule: 'suppression-without-reason' as const,
      severity: 'error' as const,
      node: { start, end },
      message,
    })),
  ];
  let suppressed = 0;
  const findings: Finding[] = [];
  for (const { rule, severity, node, message } of raw.sort(
    (one, other) => one.node.start - other.node.start,
  )) {
    const start = lines.position(node.start);
    if (byLine.get(start.line)?.has(rule) === true) {
      suppressed += 1;
      continue;
    }
    const end = lines.position(node.end);
    findings.push({ rule, severity, start, end, message, excerpt: lines.line(start.line).trim() });
  }
  return { kind: 'read', findings, suppressed, takesKeys: keyParametersOf(model) };
}

function findAll(model: Model, imported: ImportedKeys): RawFinding[] {
  const structure = new Structure(model);
  const contexts = new Contexts(model, structure);
  const flow = new Flow(model, structure);
  const sinks = new Sinks(model, structure).all();
  const keys = new KeyFindings(model, flow, contexts);
  const shared = new SharedState(model, structure);
  const values = new Set(sinks.map(({ value }) => value));
  const all = [
    ...sinks,
    ...importedSinks(model, imported).filter(({ value }) => !values.has(value)),
  ];
  const found = all.flatMap((sink) => keys.of(sink) ?? shared.of(sink) ?? []);
  return [...found, ...new StripePosts(model, structure, contexts).all(sinks)];
}
