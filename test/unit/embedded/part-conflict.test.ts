import { describe, expect, test } from 'vitest';
import { differences } from '../../../src/embedded/part-conflict.ts';
import type { ProcessRequest } from '../../../src/embedded/part-spec.ts';

const worker: ProcessRequest = {
  kind: 'process',
  name: 'worker',
  command: 'node',
  args: ['src/cli.ts', 'worker'],
  env: { STRIPE_API_KEY: 'sk_test_one', MODE: 'test' },
  ready: { kind: 'stdout-line', pattern: 'ready' },
};

describe('sharing a part', () => {
  test('equal requests differ in nothing, whatever the order of their variables', () => {
    const env = { MODE: 'test', STRIPE_API_KEY: 'sk_test_one' };
    expect(differences(worker, { ...worker, env })).toEqual([]);
  });

  test('names the variables that differ, and never their values', () => {
    const env = { STRIPE_API_KEY: 'sk_test_two', REGION: 'eu' };
    const named = differences(worker, { ...worker, env });
    expect(named).toEqual(['env MODE', 'env REGION', 'env STRIPE_API_KEY']);
  });

  test('a request without a port fits any port, one with a port only that one', () => {
    expect(differences({ kind: 'postgres', port: 5 }, { kind: 'postgres' }, { port: 5 })).toEqual(
      [],
    );
    expect(differences({ kind: 'postgres' }, { kind: 'postgres', port: 5 }, { port: 5 })).toEqual(
      [],
    );
    expect(differences({ kind: 'postgres' }, { kind: 'postgres', port: 6 }, { port: 5 })).toEqual([
      'port',
    ]);
  });

  test('a demanded port of the Temporal UI fits the one that was chosen', () => {
    const chosen = { port: 7233, uiPort: 8233 };
    const asked = { kind: 'temporal', uiPort: 8233 } as const;
    expect(differences({ kind: 'temporal' }, asked, chosen)).toEqual([]);
    expect(differences({ kind: 'temporal' }, { ...asked, uiPort: 8234 }, chosen)).toEqual([
      'uiPort',
    ]);
  });

  test('a demanded second port fits the one that was chosen', () => {
    const second = { label: 'the admin API', preferredPort: 2 };
    const vault = { ...worker, second };
    const demanded = { ...worker, second: { ...second, port: 7 } };
    expect(differences(vault, demanded, { secondPort: 7 })).toEqual([]);
    expect(differences(vault, demanded, { secondPort: 8 })).toEqual(['secondPort']);
    expect(differences(demanded, vault, { secondPort: 7 })).toEqual([]);
  });

  test('a Temporal server in memory is not shared by one who needs its state kept', () => {
    expect(differences({ kind: 'temporal', storage: 'memory' }, { kind: 'temporal' })).toEqual([]);
    expect(
      differences({ kind: 'temporal', storage: 'memory' }, { kind: 'temporal', storage: 'normal' }),
    ).toEqual(['storage']);
    expect(differences({ kind: 'temporal' }, { kind: 'temporal', storage: 'normal' })).toEqual([]);
  });
});
