import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const VITEST = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));
const CONFIG = fileURLToPath(new URL('../workflow/histories/vitest.config.ts', import.meta.url));

// `npm run histories`: bills a small list on real parts with faults and stores the histories that are not
// there yet. To record one anew, delete it first: only for a change that no open run has to survive.
const done = spawnSync(process.execPath, [VITEST, 'run', '--config', CONFIG], { stdio: 'inherit' });
process.exitCode = done.status ?? 1;
