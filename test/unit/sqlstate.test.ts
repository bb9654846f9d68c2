import { describe, expect, it } from 'vitest';
import { isRetryable, sqlstateOf } from '../../src/db/sqlstate.ts';

const withCode = (code: string) => Object.assign(new Error(`code ${code}`), { code });

describe('isRetryable', () => {
  it.each([
    '40001',
    '40P01',
    '55P03',
    '57014',
    '57P01',
    '57P02',
    '57P03',
    '53300',
    '53100',
    '25006',
    '08006',
    '08001',
    '40003',
    '53400',
    '57P05',
    '58030',
    '25P04',
  ])('tries again after SQLSTATE %s', (code) => {
    expect(isRetryable(withCode(code))).toBe(true);
  });

  it.each(['23505', '23514', '23001', '42P01', '22021', 'XX000'])(
    'does not try again after SQLSTATE %s',
    (code) => {
      expect(isRetryable(withCode(code))).toBe(false);
    },
  );

  it.each(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND'])(
    'tries again after the socket error %s',
    (code) => {
      expect(isRetryable(withCode(code))).toBe(true);
      expect(sqlstateOf(withCode(code))).toBeNull();
    },
  );

  it('tries again when the pool had no connection in time', () => {
    expect(isRetryable(new Error('timeout exceeded when trying to connect'))).toBe(true);
  });

  it.each([
    new TypeError('x is not a function'),
    new RangeError('int8 too big'),
    new SyntaxError('bad JSON'),
  ])('does not try again after a slip of our own: %s', (error) => {
    expect(isRetryable(error)).toBe(false);
  });
});
