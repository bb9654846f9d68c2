import type { Comment } from 'oxc-parser';
import type { Lines } from './lines.ts';
import { isRuleId, type RuleId } from './rules.ts';

/** `// chargeonce-lint-disable-next-line RULE[, RULE] -- REASON` */
const DIRECTIVE = /^\s*\*?\s*chargeonce-lint-disable-next-line\b(.*)$/s;

export interface Suppressions {
  /** the rules that are off, by line */
  readonly byLine: ReadonlyMap<number, ReadonlySet<RuleId>>;
  readonly faulty: readonly {
    readonly start: number;
    readonly end: number;
    readonly message: string;
  }[];
}

/** What the comments of a file switch off. Without a reason, nothing. */
export function readSuppressions(comments: readonly Comment[], lines: Lines): Suppressions {
  const byLine = new Map<number, Set<RuleId>>();
  const faulty: { start: number; end: number; message: string }[] = [];
  for (const { value, start, end } of comments) {
    const rest = DIRECTIVE.exec(value)?.[1];
    if (rest === undefined) continue;
    const [names = '', ...reason] = rest.split('--');
    const rules = names.split(/[\s,]+/).filter((name) => name !== '');
    const unknown = rules.filter((name) => !isRuleId(name));
    if (unknown.length > 0)
      faulty.push({ start, end, message: `there is no rule ${unknown.join(', ')}` });
    else if (rules.length === 0) faulty.push({ start, end, message: 'the comment names no rule' });
    else if (reason.join('--').trim() === '')
      faulty.push({
        start,
        end,
        message: 'the comment gives no reason, so it switches nothing off',
      });
    else {
      const line = lines.position(end).line + 1;
      const off = byLine.get(line) ?? new Set();
      for (const rule of rules) if (isRuleId(rule)) off.add(rule);
      byLine.set(line, off);
    }
  }
  return { byLine, faulty };
}
