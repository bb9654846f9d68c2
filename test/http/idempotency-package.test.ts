import { execFile } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CONSUMER_FILES = path.join(ROOT, 'test', 'support', 'package-consumer');
const run = promisify(execFile);

const exportsSchema = z.record(
  z.string(),
  z.union([z.string(), z.object({ types: z.string(), default: z.string() })]),
);
const manifestSchema = z.object({
  exports: exportsSchema,
  dependencies: z.record(z.string(), z.string()),
  peerDependencies: z.record(z.string(), z.string()).default({}),
});
const readManifest = (folder: string) =>
  manifestSchema.parse(JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')));

let folder: string;
let consumer: string;
let installed: string;

/** Puts a package of ours where an installation would put it; its own dependencies it finds from its real place. */
async function link(name: string): Promise<void> {
  const place = path.join(consumer, 'node_modules', name);
  await mkdir(path.dirname(place), { recursive: true });
  await symlink(await realpath(path.join(ROOT, 'node_modules', name)), place);
}

async function typeCheck(
  file: string,
  options: Readonly<Record<string, unknown>>,
): Promise<string> {
  const config = path.join(consumer, `tsconfig.${file}.json`);
  const compilerOptions = { module: 'nodenext', target: 'es2024', strict: true, noEmit: true };
  await writeFile(
    config,
    JSON.stringify({ compilerOptions: { ...compilerOptions, ...options }, files: [file] }),
  );
  const tsc = path.join(ROOT, 'node_modules', '.bin', 'tsc');
  return run(tsc, ['--project', config]).then(
    ({ stdout }) => stdout,
    (error: unknown) =>
      error instanceof Error && 'stdout' in error ? String(error.stdout) : String(error),
  );
}

/** The packages that built files import when they run. */
function importsOf(entry: string): readonly string[] {
  const texts = globSync(`${entry}/*.js`, { cwd: installed }).map((file) =>
    readFileSync(path.join(installed, file), 'utf8'),
  );
  expect(texts.length).toBeGreaterThan(3);
  const specifiers = texts.flatMap((text) =>
    [...text.matchAll(/(?:from|import) '([^'.][^']*)'/g)].map(([, name = '']) => name),
  );
  return [...new Set(specifiers)].sort();
}

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-package-'));
  const dist = path.join(folder, 'dist');
  consumer = path.join(folder, 'consumer');
  installed = path.join(consumer, 'node_modules', 'chargeonce');
  await mkdir(installed, { recursive: true });
  await run(process.execPath, [path.join(ROOT, 'build', 'main.ts'), dist]);
  const { stdout } = await run('npm', ['pack', dist, '--pack-destination', folder, '--silent']);
  const tarball = path.join(folder, stdout.trim());
  await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed]);
  await cp(CONSUMER_FILES, consumer, { recursive: true });
  await writeFile(path.join(consumer, 'package.json'), '{"type":"module","private":true}');
  const { dependencies, peerDependencies } = readManifest(installed);
  for (const name of Object.keys({ ...dependencies, ...peerDependencies })) await link(name);
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe('the package that npm run build makes', () => {
  it('runs a POST of an application in plain JavaScript once, and answers its repeat', async () => {
    const { stdout } = await run(process.execPath, [path.join(consumer, 'main.js')]);
    const body = { ran: 1, underKey: 'order "1"' };
    expect(JSON.parse(stdout)).toEqual({
      bodies: [
        [201, false, body],
        [201, true, body],
      ],
      unkeyed: 400,
      store: 'function',
      sql: readFileSync(path.join(ROOT, 'migrations', '0013_idempotency-records.sql'), 'utf8'),
    });
  });

  it('has types for a server, checked down to its own declarations', async () => {
    await link('@types/node');
    await link('@types/pg');
    expect(await typeCheck('server.ts', { types: ['node'] })).toBe('');
  });

  it('has types for a page that knows nothing of Node', async () => {
    expect(await typeCheck('page.ts', { types: [], lib: ['es2024', 'dom'] })).toBe('');
  });

  it('imports what it declares and nothing else, and its client nothing at all', () => {
    const { dependencies } = readManifest(installed);
    const ofTheServer = importsOf('idempotency').filter((name) => !name.startsWith('node:'));
    expect(ofTheServer).toEqual(Object.keys(dependencies).sort());
    expect(importsOf('idempotency-client')).toEqual([]);
  });

  it('is what the project itself exports, entry by entry', () => {
    const own = readManifest(installed).exports;
    const project = Object.entries(readManifest(ROOT).exports).filter(
      ([entry]) => entry !== './package.json',
    );
    const inDist = (file: string) => file.replace('./', './dist/');
    expect(project).toEqual(
      Object.entries(own).map(([entry, target]) => [
        entry,
        typeof target === 'string'
          ? inDist(target)
          : { types: inDist(target.types), default: inDist(target.default) },
      ]),
    );
    for (const target of Object.values(own).flatMap((one) => Object.values(one)))
      expect(existsSync(path.join(installed, target))).toBe(true);
  });
});
