import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { RETRY_POLICY } from '../../src/http/idempotency-client/retry.ts';
import { settingsOf } from '../../src/http/idempotency/options.ts';
import { PROBLEM_TITLES } from '../../src/http/idempotency/problem.ts';
import type { IdempotencyStore } from '../../src/http/idempotency/store.ts';

const text = readFileSync(
  fileURLToPath(new URL('../../docs/idempotency.md', import.meta.url)),
  'utf8',
);

/** What stands between two headings, or to the end. */
function section(heading: string): string {
  const [, rest = ''] = text.split(`${heading}\n`);
  return rest.split(/^#{2,3} /m)[0] ?? '';
}

/** The cells of the rows of a section's tables. */
function rows(heading: string): readonly string[][] {
  return section(heading)
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.split(' | ').map((cell) => cell.replaceAll(/^\| | \|$/g, '')));
}

const coded = (words: string): string[] =>
  [...words.matchAll(/`([^`]+)`/g)].map(([, word = '']) => word);
const sorted = (words: Iterable<string>): string[] => [...new Set(words)].sort();

describe('docs/idempotency.md', () => {
  const settings = settingsOf({
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nothing is kept here
    store: {} as IdempotencyStore,
    principal: () => null,
    policyUrl: '/',
  });

  it('has every problem of the layer in its table of answers, and no other', () => {
    const codes = rows('## What is answered').flatMap(([, , code = '']) => coded(code));
    expect(sorted(codes)).toEqual(sorted([...Object.keys(PROBLEM_TITLES), 'code']));
  });

  it('lists the response headers that are kept', () => {
    const kept = /\*\*Headers\*\* that are kept: ([\s\S]*?)\. /.exec(text)?.[1] ?? '';
    expect(sorted(coded(kept))).toEqual(sorted(settings.storedHeaders));
  });

  it('lists the options with the defaults that they have', () => {
    const table = rows('## In your own application');
    const named = table.flatMap(([name = '']) => coded(name)).filter((name) => /^\w+$/.test(name));
    expect(sorted(named)).toEqual(sorted([...Object.keys(settings), 'false']));
    const defaults = new Map(
      table.map(([name = '', value = '']) => [name.replaceAll('`', ''), value]),
    );
    expect(Object.fromEntries(defaults)).toMatchObject({
      endpoint: `\`${settings.endpoint}\``,
      fingerprint: `\`${settings.fingerprint}\``,
      mismatchStatus: String(settings.mismatchStatus),
      leaseMs: settings.leaseMs.toLocaleString('en').replace(',', ' '),
      retentionMs: `${settings.retentionMs / 3_600_000} h`,
      maxRequestBytes: `${settings.maxRequestBytes / 2 ** 20} MiB`,
      maxStoredBytes: `${settings.maxStoredBytes / 2 ** 20} MiB`,
      neverStored: [...settings.neverStored].join(', '),
    });
  });

  it('says of the client what it goes by', () => {
    const client = section('## The client');
    const { maxAttempts, deadlineMs, attemptTimeoutMs, baseDelayMs, maxDelayMs } = RETRY_POLICY;
    expect(client).toContain(`${RETRY_POLICY.retryStatuses.join(', ')} (\`retryStatuses\`)`);
    expect(client).toContain(
      `after ${maxAttempts} attempts, ${deadlineMs / 1_000} s in all, ${attemptTimeoutMs / 1_000} s for one`,
    );
    expect(client).toContain(`from ${baseDelayMs} ms to ${maxDelayMs / 1_000} s`);
  });
});
