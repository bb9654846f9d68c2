import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KEY_MAX_LENGTH, readKey, type KeyReading } from '../../src/http/idempotency/key.ts';

const PRINTABLE = Array.from({ length: 0x7f - 0x20 }, (_, index) =>
  String.fromCodePoint(0x20 + index),
);

const printable = (maxLength: number, but = ''): fc.Arbitrary<string> =>
  fc.string({
    unit: fc.constantFrom(...PRINTABLE.filter((character) => !but.includes(character))),
    minLength: 1,
    maxLength,
  });

/** What every client can send without quotes. */
const bareKeys = printable(KEY_MAX_LENGTH, '",;').filter((key) => key === key.trim());
const anyKeys = printable(KEY_MAX_LENGTH);

/** A String of RFC 8941, section 4.1.6, written down here and not by the library that reads it. */
const quoted = (key: string): string => `"${key.replaceAll(/["\\]/g, String.raw`\$&`)}"`;

const kindOf = (...lines: string[]): KeyReading['kind'] => readKey(lines).kind;

describe('readKey', () => {
  it('D5, D7: takes a key of 255 characters and refuses one of 256, in both forms', () => {
    const longest = 'k'.repeat(KEY_MAX_LENGTH);
    expect(readKey([longest])).toEqual({ kind: 'key', key: longest });
    expect(readKey([quoted(longest)])).toEqual({ kind: 'key', key: longest });
    expect(kindOf(`${longest}k`)).toBe('malformed');
    expect(kindOf(quoted(`${longest}k`))).toBe('malformed');
  });

  it('counts the characters of the key, not those that write it down', () => {
    const key = '"'.repeat(KEY_MAX_LENGTH);
    expect(readKey([quoted(key)])).toEqual({ kind: 'key', key });
    expect(kindOf(quoted(`${key}"`))).toBe('malformed');
  });

  it('reads the quoted and the bare form of a key as one key', () => {
    fc.assert(
      fc.property(bareKeys, (key) => {
        expect(readKey([key])).toEqual({ kind: 'key', key });
        expect(readKey([quoted(key)])).toEqual({ kind: 'key', key });
      }),
    );
  });

  it('reads every printable key from its quoted form, structure inside included', () => {
    fc.assert(
      fc.property(anyKeys, (key) => {
        expect(readKey([quoted(key)])).toEqual({ kind: 'key', key });
      }),
    );
    expect(readKey([String.raw`"a\"b\\c, d;e=1"`])).toEqual({
      kind: 'key',
      key: String.raw`a"b\c, d;e=1`,
    });
  });

  it('does not mind blanks around a key, and keeps those inside quotes', () => {
    const blanks = fc.string({ unit: fc.constantFrom(' ', '\t'), maxLength: 4 });
    fc.assert(
      fc.property(bareKeys, blanks, blanks, (key, before, after) => {
        expect(readKey([`${before}${key}${after}`])).toEqual({ kind: 'key', key });
        expect(readKey([`${before}${quoted(` ${key} `)}${after}`])).toEqual({
          kind: 'key',
          key: ` ${key} `,
        });
      }),
    );
  });

  it('tells two keys apart that differ in anything, case included', () => {
    fc.assert(
      fc.property(anyKeys, anyKeys, (one, other) => {
        const same =
          JSON.stringify(readKey([quoted(one)])) === JSON.stringify(readKey([quoted(other)]));
        expect(same).toBe(one === other);
      }),
    );
    expect(readKey(['Order-1'])).not.toEqual(readKey(['order-1']));
  });

  it('is missing only where there is no such header at all', () => {
    expect(readKey(undefined)).toEqual({ kind: 'missing' });
    expect(readKey([])).toEqual({ kind: 'missing' });
  });

  it.each(['', ' ', '\t', '""', ' "" '])('D7: refuses the empty key %j', (line) => {
    expect(readKey([line])).toEqual({ kind: 'malformed', problem: 'is empty' });
  });

  it.each([
    ['a list', 'a,b'],
    ['a list of strings', '"a", "b"'],
    ['a list with nothing in it', ','],
    ['a trailing comma', '"a",'],
    ['a parameter', 'a;b'],
    ['a parameter behind a string', '"a";b=1'],
    ['a parameter without a name', '"a";'],
    ['half a string', '"a'],
    ['the other half', 'a"'],
    ['a quote alone', '"'],
    ['two strings in a row', '"a""b"'],
    ['letters behind a string', '"a"b'],
    ['a quote inside', 'a"b'],
    ['an escape that is none', String.raw`"a\b"`],
    ['an escape with nothing behind it', '"a\\'],
    ['an inner list', '("a" "b")'],
    ['a display string', '%"a"'],
  ])('refuses %s: %j', (_what, line) => {
    expect(kindOf(line)).toBe('malformed');
  });

  it('refuses a list or a parameter made of any keys', () => {
    fc.assert(
      fc.property(bareKeys, bareKeys, fc.constantFrom(',', ';', ', ', '; '), (one, other, by) => {
        expect(kindOf(`${one}${by}${other}`)).toBe('malformed');
        expect(kindOf(`${quoted(one)}${by}${quoted(other)}`)).toBe('malformed');
        expect(kindOf(`${quoted(one)}${by}${other}`)).toBe('malformed');
      }),
    );
  });

  it('refuses a second line, equal or not, well-formed or not', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(bareKeys, fc.string()), { minLength: 2, maxLength: 4 }),
        (lines) => {
          expect(readKey(lines)).toEqual({ kind: 'malformed', problem: 'is there more than once' });
        },
      ),
    );
    expect(kindOf('a', 'a')).toBe('malformed');
    expect(kindOf('"a', 'b"')).toBe('malformed');
  });

  it('D7: refuses what is not printable ASCII, wherever it stands', () => {
    const foreign = fc
      .integer({ min: 0, max: 0xff_ff })
      .map((code) => String.fromCharCode(code))
      .filter((character) => !PRINTABLE.includes(character));
    fc.assert(
      fc.property(printable(20, '",;'), foreign, printable(20, '",;'), (before, odd, after) => {
        const inside = `x${before}${odd}${after}x`;
        expect(kindOf(inside)).toBe('malformed');
        expect(kindOf(`"${inside.replaceAll('\\', '')}"`)).toBe('malformed');
        if (odd === '\t') return;
        expect(kindOf(`${odd}${after}`)).toBe('malformed');
        expect(kindOf(`${before}${odd}`)).toBe('malformed');
      }),
    );
  });

  it.each(['\u0000', '\n', '\r', '\u000b', '\u007f', '\u00a0', '\u00e9', '\u2028', '\ufeff'])(
    'takes no %j for a blank around a key',
    (odd) => {
      for (const line of [`${odd}key`, `key${odd}`, `${odd}"key"`, `"key"${odd}`, odd])
        expect(kindOf(line)).toBe('malformed');
    },
  );

  it('never throws, and gives no key that is not 1 to 255 printable characters', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.string({ maxLength: 400 }), anyKeys), { maxLength: 2 }),
        (lines) => {
          const reading = readKey(lines);
          if (reading.kind !== 'key') return;
          expect(reading.key.length).toBeGreaterThanOrEqual(1);
          expect(reading.key.length).toBeLessThanOrEqual(KEY_MAX_LENGTH);
          expect(reading.key).toMatch(/^[ -~]+$/);
        },
      ),
      { numRuns: 500 },
    );
  });
});
