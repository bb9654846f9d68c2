import { describe, expect, test } from 'vitest';
import { temporalSpec, type TemporalPlace } from '../../../src/embedded/temporal-dev-server.ts';

const place: TemporalPlace = {
  executable: '/bin/temporal',
  port: 7233,
  uiPort: 8233,
  metricsPort: 9233,
  file: '/home/t.db',
  storage: 'normal',
  env: { PATH: '/bin' },
};

function valuesOf(flag: string, args: readonly string[]): string[] {
  return args.flatMap((arg, index) => (arg === flag ? [args[index + 1] ?? ''] : []));
}

describe('the dev server', () => {
  test.each([
    ['normal', ['/home/t.db'], ['journal_mode=WAL', 'synchronous=NORMAL']],
    ['full', ['/home/t.db'], ['journal_mode=WAL', 'synchronous=FULL']],
    ['memory', [], []],
  ] as const)(
    'with storage %s keeps its state in %j, written with %j',
    (storage, files, pragmas) => {
      const { args } = temporalSpec({ ...place, storage });
      expect(valuesOf('--db-filename', args)).toEqual(files);
      expect(valuesOf('--sqlite-pragma', args)).toEqual(pragmas);
    },
  );

  test('listens on the loopback only, because it has no login', () => {
    expect(valuesOf('--ip', temporalSpec(place).args)).toEqual(['127.0.0.1']);
  });

  test('registers the search attributes that operators look for', () => {
    expect(valuesOf('--search-attribute', temporalSpec(place).args)).toEqual([
      'BillingPeriod=Keyword',
      'BillingNamespace=Keyword',
      'BillingOutcome=Keyword',
    ]);
  });
});
