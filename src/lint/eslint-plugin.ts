// The same rules for ESLint 9 and for oxlint's jsPlugins: the text is parsed once more, and each rule reports its own.
import type { Finding } from './finding.ts';
import { lintSource } from './lint-source.ts';
import { RULES, type Rule } from './rules.ts';

interface SourceCode {
  readonly text: string;
}

/** What of ESLint's context is used. */
interface RuleContext {
  readonly filename: string;
  readonly sourceCode: SourceCode;
  report(problem: {
    readonly message: string;
    readonly loc: { readonly start: Place; readonly end: Place };
  }): void;
}

interface Place {
  /** from 1 */
  readonly line: number;
  /** from 0 */
  readonly column: number;
}

/** All rules of one file share one look at it. */
const looked = new WeakMap<SourceCode, readonly Finding[]>();

function findingsIn(context: RuleContext): readonly Finding[] {
  const known = looked.get(context.sourceCode);
  if (known !== undefined) return known;
  const report = lintSource(context.filename, context.sourceCode.text);
  // What does not parse here was parsed by the host, in a dialect of its own: nothing can be said of it.
  const findings = report.kind === 'read' ? report.findings : [];
  looked.set(context.sourceCode, findings);
  return findings;
}

function eslintRule({ id, title, harm, remedy }: Rule) {
  return {
    meta: {
      type: 'problem',
      docs: { description: title, recommended: true },
      schema: [],
    },
    create: (context: RuleContext) => ({
      Program: (): void => {
        for (const { rule, message, start, end } of findingsIn(context)) {
          if (rule !== id) continue;
          context.report({
            message: `${message}. ${harm} ${remedy}`,
            loc: {
              start: { line: start.line, column: start.column - 1 },
              end: { line: end.line, column: end.column - 1 },
            },
          });
        }
      },
    }),
  };
}

const rules = Object.fromEntries(Object.values(RULES).map((rule) => [rule.id, eslintRule(rule)]));

const plugin = {
  meta: { name: 'chargeonce' },
  rules,
  configs: {
    /** errors as errors, warnings as warnings */
    recommended: {
      rules: Object.fromEntries(
        Object.values(RULES).map(({ id, severity }) => [
          `chargeonce/${id}`,
          severity === 'error' ? 'error' : 'warn',
        ]),
      ),
    },
  },
};

export default plugin;
