import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { FAILURES } from '../../src/domain/failures.ts';

const text = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8');

describe('docs/errors.md', () => {
  const headings = [...text.matchAll(/^### `([^`]+)`/gm)].map((match) => match[1] ?? '');

  it('has one section for every failure type, and for nothing else', () => {
    expect(headings.sort()).toEqual(Object.values(FAILURES).sort());
  });

  it('says something about each', () => {
    const bodies = text.split(/^### `/m).slice(1);
    expect(bodies.filter((body) => body.split('\n').slice(1).join('').trim().length < 40)).toEqual(
      [],
    );
  });
});

describe('FAILURES', () => {
  it('uses every name once', () => {
    expect(new Set(Object.values(FAILURES)).size).toBe(Object.keys(FAILURES).length);
  });
});
