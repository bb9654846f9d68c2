// npm run conformance: our own Stripe requests against Stripe's OpenAPI.
// Without stripe-mock this fails, unless --allow-missing says that an unchecked run is accepted.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { locateStripeMock, PATH_VARIABLE, StripeMockMissing } from './stripe-mock.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const VITEST = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));
const CONFIG = 'test/conformance/vitest.config.ts';

const unknown = process.argv.slice(2).find((argument) => argument !== '--allow-missing');
if (unknown === undefined) {
  process.exitCode = await main(process.argv.includes('--allow-missing'));
} else {
  process.stderr.write(`conformance: unknown argument ${unknown}; there is only --allow-missing\n`);
  process.exitCode = 2;
}

async function main(allowMissing: boolean): Promise<number> {
  try {
    const binary = await locateStripeMock(process.env);
    const { status } = spawnSync(process.execPath, [VITEST, 'run', '--config', CONFIG], {
      cwd: ROOT,
      env: { ...process.env, [PATH_VARIABLE]: binary },
      stdio: 'inherit',
    });
    return status ?? 1;
  } catch (error) {
    if (!(error instanceof StripeMockMissing)) throw error;
    process.stderr.write(`conformance: NOT CHECKED against Stripe's OpenAPI\n${error.message}\n`);
    return allowMissing ? 0 : 1;
  }
}
