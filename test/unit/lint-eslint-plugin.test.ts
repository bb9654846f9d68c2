import { describe, expect, it } from 'vitest';
import plugin from '../../src/lint/eslint-plugin.ts';
import { RULES } from '../../src/lint/index.ts';

const TEXT = `
await pRetry(() => stripe.charges.create({}, { idempotencyKey: randomUUID() }));
export const charge = () => stripe.charges.create({});
`;

/** Runs rules as a host does: each with a context of its own, over one source. */
function reportsOf(ids: readonly string[], text = TEXT) {
  const sourceCode = { text };
  return ids.flatMap((id) => {
    const reports: unknown[] = [];
    const report = (problem: unknown) => reports.push(problem);
    plugin.rules[id]?.create({ filename: 'a.ts', sourceCode, report }).Program();
    return reports;
  });
}

describe('the plugin for ESLint and oxlint', () => {
  it('has every rule, and recommends each at its severity', () => {
    const ids = Object.keys(RULES);
    expect(Object.keys(plugin.rules)).toEqual(ids);
    expect(plugin.configs.recommended.rules['chargeonce/key-in-retry']).toBe('error');
    expect(plugin.configs.recommended.rules['chargeonce/stripe-post-without-key']).toBe('warn');
  });

  it('reports each finding by its own rule, with columns from 0', () => {
    expect(reportsOf(['key-in-retry', 'key-from-clock'])).toEqual([
      {
        message: expect.stringContaining(
          'the key is made of randomUUID(), in pRetry(…). Each try makes another key.',
        ),
        loc: { start: { line: 2, column: 47 }, end: { line: 2, column: 75 } },
      },
    ]);
    expect(reportsOf(['stripe-post-without-key'])).toMatchObject([
      { loc: { start: { line: 3, column: 28 } } },
    ]);
  });

  it('says nothing of a text that does not parse', () => {
    expect(reportsOf(Object.keys(RULES), '<template>stripe</template> {')).toEqual([]);
  });
});
