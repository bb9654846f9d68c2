import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const SCHEMA_FILE = fileURLToPath(new URL('../../src/db/schema.ts', import.meta.url));
const CODEGEN = fileURLToPath(
  new URL('../../node_modules/kysely-codegen/dist/cli/bin.js', import.meta.url),
);

/** Runs kysely-codegen on a migrated database; with `verify` it changes nothing and exits 1 on a difference. */
export function runSchemaCodegen(options: { databaseUrl: string; verify: boolean }): {
  exitCode: number;
  output: string;
} {
  const done = spawnSync(
    process.execPath,
    [
      CODEGEN,
      '--dialect=postgres',
      `--url=${options.databaseUrl}`,
      `--out-file=${SCHEMA_FILE}`,
      '--exclude-pattern=schema_migrations',
      '--type-mapping={"int8":"number"}',
      ...(options.verify ? ['--verify'] : []),
    ],
    { encoding: 'utf8' },
  );
  return { exitCode: done.status ?? 1, output: `${done.stdout}${done.stderr}` };
}
