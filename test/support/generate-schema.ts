// npm run schema: writes src/db/schema.ts from the migrations, on an embedded Postgres of its own.
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { migrate } from '../../src/db/migrate.ts';
import { leaseStack } from '../../src/embedded/stack.ts';
import { runSchemaCodegen } from './schema-codegen.ts';

const home = await mkdtemp(path.join(tmpdir(), 'chargeonce-schema-'));
// As root, PostgreSQL runs as another user, who has to pass through.
await chmod(home, 0o711);
const { env } = process;
const lease = await leaseStack({ home, cacheDir: home, env, parts: [{ kind: 'postgres' }] });
try {
  const { databaseUrl } = lease.endpoints;
  if (databaseUrl === undefined) throw new Error('the embedded Postgres gave no address');
  await migrate(databaseUrl);
  const { exitCode, output } = runSchemaCodegen({ databaseUrl, verify: false });
  process.stdout.write(output);
  process.exitCode = exitCode;
} finally {
  await lease.release();
  await rm(home, { recursive: true, force: true });
}
