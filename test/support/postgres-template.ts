import { chmod, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { preparePostgres } from '../../src/embedded/postgres.ts';

/** The variable that tells test files where the cluster lies. */
export const POSTGRES_TEMPLATE = 'CHARGEONCE_TEST_POSTGRES';

/**
 * Makes an empty PostgreSQL cluster for the test files of a run to copy: most of them start a server, and an
 * initdb for each is a minute of CPU. Nobody ever serves it. Returns what the files are to find in their
 * environment; nothing where a copy would not hold the data, since PostgreSQL's user cannot enter the folder.
 */
export async function makePostgresTemplate(parent: string): Promise<Record<string, string>> {
  const folder = path.join(parent, 'postgres');
  await mkdir(folder);
  for (const each of [parent, folder]) await chmod(each, 0o711);
  const cluster = await preparePostgres({ folder, env: { PATH: process.env['PATH'] ?? '' } });
  const inside = cluster.dataDir === path.join(folder, 'data');
  return inside ? { [POSTGRES_TEMPLATE]: folder } : {};
}
