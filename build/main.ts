// Builds what other applications use: `npm run build` makes dist/, a package of its own with the Idempotency-Key layer,
// its client and the lint rules for ESLint and oxlint, as JavaScript with types. `node build/main.ts FOLDER` builds elsewhere.
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PROJECTS = ['tsconfig.build.json', 'tsconfig.build-client.json', 'tsconfig.build-lint.json'];
const MIGRATION = '0013_idempotency-records.sql';
/** What the built code imports when it runs. */
const DEPENDENCIES = ['canonicalize', 'fastify-plugin', 'structured-headers'];
/** What the application has already, since the plugin is for it, or needs for the lint rules alone. */
const PEERS = { fastify: '^5.0.0', 'oxc-parser': '^0.159.0' };
const ENTRIES = {
  idempotency: 'idempotency/index',
  'idempotency-client': 'idempotency-client/index',
  'eslint-plugin': 'lint/eslint-plugin',
};

const manifestSchema = z.object({
  name: z.string(),
  version: z.string(),
  license: z.string(),
  engines: z.record(z.string(), z.string()),
  dependencies: z.record(z.string(), z.string()),
});

build(path.resolve(process.argv[2] ?? path.join(ROOT, 'dist')));

function build(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  const tsc = path.join(ROOT, 'node_modules', '.bin', 'tsc');
  // Apart from each other: the client must compile without a single type of Node.
  for (const project of PROJECTS)
    execFileSync(tsc, ['--project', path.join(ROOT, project), '--outDir', folder], {
      stdio: 'inherit',
    });
  cpSync(path.join(ROOT, 'migrations', MIGRATION), path.join(folder, 'idempotency', MIGRATION));
  cpSync(path.join(ROOT, 'docs', 'idempotency.md'), path.join(folder, 'README.md'));
  cpSync(path.join(ROOT, 'LICENSE'), path.join(folder, 'LICENSE'));
  writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
}

/** Of the package in dist/: a billing engine is no dependency of an application that wants the plugin. */
function manifest() {
  const text = readFileSync(path.join(ROOT, 'package.json'), 'utf8');
  const { name, version, license, engines, dependencies } = manifestSchema.parse(JSON.parse(text));
  return {
    name,
    version,
    description:
      'An Idempotency-Key layer for Fastify, and a client for it: a retried POST never runs twice.',
    license,
    type: 'module',
    sideEffects: false,
    engines,
    exports: Object.fromEntries(
      Object.entries(ENTRIES).map(([entry, file]) => [
        `./${entry}`,
        { types: `./${file}.d.ts`, default: `./${file}.js` },
      ]),
    ),
    dependencies: Object.fromEntries(DEPENDENCIES.map((one) => [one, `^${dependencies[one]}`])),
    peerDependencies: PEERS,
    peerDependenciesMeta: Object.fromEntries(
      Object.keys(PEERS).map((one) => [one, { optional: true }]),
    ),
  };
}
