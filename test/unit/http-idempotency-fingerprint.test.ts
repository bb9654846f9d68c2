import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  fingerprint,
  type FingerprintMode,
  type RequestParts,
} from '../../src/http/idempotency/fingerprint.ts';

const request = (more: Partial<RequestParts> = {}): RequestParts => ({
  method: 'POST',
  url: '/v1/pay?to=alice',
  contentType: 'application/json',
  body: Buffer.from('{"amount":1}'),
  ...more,
});

const hex = (more: Partial<RequestParts> = {}, mode: FingerprintMode = 'bytes'): string =>
  fingerprint(request(more), mode).toString('hex');

const json = (text: string, mode: FingerprintMode = 'canonical-json'): string =>
  hex({ body: Buffer.from(text) }, mode);

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('fingerprint', () => {
  it('N8: is the same 32 bytes in every build, computed here from the published frame', () => {
    const frame =
      '36:chargeonce idempotency fingerprint 1,' +
      '4:POST,7:/v1/pay,9:?to=alice,16:application/json,5:bytes,12:{"amount":1},';
    expect(hex()).toBe(sha256(frame));
    expect(hex()).toBe('72365b76ea47df1998a5511cddea4edc72436786a43ad6f6d012739dd24fd4a0');
    expect(fingerprint(request())).toHaveLength(32);
  });

  it('N8: is the same in every build in canonical form too, named as such', () => {
    const frame =
      '36:chargeonce idempotency fingerprint 1,' +
      '4:POST,7:/v1/pay,9:?to=alice,16:application/json,3:jcs,20:{"a":[1,"é"],"b":2},';
    expect(json('{ "b": 2.0, "a": [1, "\\u00e9"] }')).toBe(sha256(frame));
    expect(json('{ "b": 2.0, "a": [1, "\\u00e9"] }')).toBe(
      'e2bb21856b0d8e4a71b1da20f5b5e1836bd22ff5a0fb38609654442f9f7d5857',
    );
  });

  it('counts bytes, not characters', () => {
    const frame = '36:chargeonce idempotency fingerprint 1,4:POST,3:/é,0:,0:,5:bytes,0:,';
    expect(hex({ url: '/é', contentType: '', body: Buffer.alloc(0) })).toBe(sha256(frame));
  });

  it('M1, M2: is another one when the query is, has another value or is not there', () => {
    const of = (url: string) => hex({ url });
    expect(of('/pay?to=alice')).not.toBe(of('/pay?to=mallory'));
    expect(of('/pay?dry=1')).not.toBe(of('/pay'));
    expect(of('/pay?dry=1')).not.toBe(of('/pay?dry=0'));
    expect(of('/pay?a=1&b=2')).not.toBe(of('/pay?b=2&a=1'));
    expect(of('/pay?')).not.toBe(of('/pay'));
    expect(of('/pay?a?b')).not.toBe(of('/pay?a%3Fb'));
  });

  it('is another one when the method, path or content type is', () => {
    expect(hex({ method: 'PUT' })).not.toBe(hex());
    expect(hex({ url: '/v1/Pay?to=alice' })).not.toBe(hex());
    expect(hex({ contentType: 'application/json; charset=utf-8' })).not.toBe(hex());
  });

  it('M4: is another one for the same JSON in another member order, compared as bytes', () => {
    expect(json('{"a":1,"b":2}', 'bytes')).not.toBe(json('{"b":2,"a":1}', 'bytes'));
    expect(json('{"a":1}', 'bytes')).not.toBe(json('{"a": 1}', 'bytes'));
  });

  it('M4: is the same one for another member order and other blanks in canonical form', () => {
    expect(json('{"a":1,"b":{"c":[1,2],"d":null}}')).toBe(
      json(' {\n"b" : {"d":null, "c":[1,\t2]},\r\n"a":1.0e0} '),
    );
    expect(json('{"a":1,"b":2}')).not.toBe(json('{"a":2,"b":1}'));
    expect(json('[1,2]')).not.toBe(json('[2,1]'));
    expect(json('{"a":1}')).not.toBe(json('{"a":"1"}'));
    expect(json('{"a":null}')).not.toBe(json('{}'));
    expect(json('{"__proto__":1}')).not.toBe(json('{}'));
  });

  it('L2, L3: is another one when a byte moves across a border between two parts', () => {
    const text = fc.string({
      unit: fc.constantFrom('a', '?', ',', ':', '1', '5', '/'),
      maxLength: 8,
    });
    const list = fc.tuple(text, text, text, text);
    const of = ([method, url, contentType, body]: readonly string[]) =>
      hex({
        method: method ?? '',
        url: url ?? '',
        contentType: contentType ?? '',
        body: Buffer.from(body ?? ''),
      });
    fc.assert(
      fc.property(list, fc.nat({ max: 2 }), fc.boolean(), (parts, border, right) => {
        const from = right ? border : border + 1;
        const to = right ? border + 1 : border;
        const given = parts[from] ?? '';
        fc.pre(given !== '');
        const moved: string[] = [...parts];
        moved[from] = right ? given.slice(0, -1) : given.slice(1);
        moved[to] = right
          ? given.slice(-1) + (parts[to] ?? '')
          : (parts[to] ?? '') + given.slice(0, 1);
        expect(of(moved)).not.toBe(of(parts));
      }),
      { numRuns: 500 },
    );
  });

  it('L2, L3: is another one when a byte moves between path and query', () => {
    expect(hex({ url: '/ab?c' })).not.toBe(hex({ url: '/a?bc' }));
    expect(hex({ url: '/a?bc' })).not.toBe(hex({ url: '/ab?c' }));
    expect(hex({ url: '/a??' })).not.toBe(hex({ url: '/a?' }));
  });

  it('is shared by two requests only when all their parts are equal', () => {
    const small = fc.constantFrom('', 'a', 'b', 'ab');
    const parts = fc.record({
      method: small,
      url: fc.constantFrom('/', '/?', '/?a', '/a', '/a?'),
      contentType: small,
      body: fc.uint8Array({ maxLength: 2, max: 2 }).map((bytes) => Buffer.from(bytes)),
    });
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const equal = JSON.stringify(one) === JSON.stringify(other);
        expect(hex(one) === hex(other)).toBe(equal);
      }),
      { numRuns: 500 },
    );
  });

  it('M4: takes any JSON value for itself in canonical form, however it is written', () => {
    const pretty = (value: unknown): string => JSON.stringify(turned(value), null, 3);
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(json(JSON.stringify(value))).toBe(json(pretty(value)));
      }),
    );
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
        const equal = sorted(one) === sorted(other);
        expect(json(JSON.stringify(one)) === json(JSON.stringify(other))).toBe(equal);
      }),
    );
  });

  it.each([
    ['is of another type', 'text/plain'],
    ['has no type', ''],
    ['only begins like JSON', 'application/jsonlines'],
  ])('compares a body by its bytes when it %s, canonical form or not', (_what, contentType) => {
    const of = (text: string) => hex({ contentType, body: Buffer.from(text) }, 'canonical-json');
    expect(of('{"a":1}')).not.toBe(of('{"a": 1}'));
    expect(of('{"a":1}')).toBe(hex({ contentType, body: Buffer.from('{"a":1}') }));
  });

  it.each([
    'application/json',
    'Application/JSON',
    'application/json; charset=utf-8',
    'application/merge-patch+json',
    'application/vnd.api+json;v=1',
  ])('compares %s by its value in canonical form', (contentType) => {
    const of = (text: string) => hex({ contentType, body: Buffer.from(text) }, 'canonical-json');
    expect(of('{"a":1}')).toBe(of('{"a": 1}'));
  });

  it('compares what is no JSON by its bytes, and never throws', () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    for (const text of ['', '{', '{"a":1e999}', '"\\ud800"', 'undefined', `${deep}]`])
      expect(json(text)).toBe(json(text, 'bytes'));
    expect(json(deep)).toBe(json(` ${deep}`));
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        expect(hex({ body: Buffer.from(bytes) }, 'canonical-json')).toMatch(/^[0-9a-f]{64}$/);
      }),
    );
  });

  it('tells two bodies apart whose bytes are no UTF-8, in canonical form too', () => {
    const of = (byte: number) => hex({ body: Buffer.from([0x22, byte, 0x22]) }, 'canonical-json');
    expect(of(0xfe)).not.toBe(of(0xff));
    expect(hex({ body: Buffer.from('\ufeff1') }, 'canonical-json')).not.toBe(json('1'));
  });

  it('takes a body in canonical form and the same bytes as they came for two requests', () => {
    expect(json('{"a":1}', 'canonical-json')).not.toBe(json('{"a":1}', 'bytes'));
  });
});

/** The same value with the members of every object the other way round. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned);
  if (typeof value !== 'object' || value === null) return value;
  // From entries and not by assignment: `__proto__` has to stay a member.
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([name, member]) => [name, turned(member)]),
  );
}

/** A text that two JSON values share exactly when they are equal. */
function sorted(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${sorted(member)}`).join(',')}}`;
}
