import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const VITEST = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));
const CONFIG = fileURLToPath(new URL('../workflow/histories/vitest.config.ts', import.meta.url));

// `npm run histories`: bills a small list on real parts with faults and rewrites the stored histories.
// Only for a change of workflow code that no open run has to survive; say so in the commit.
const done = spawnSync(process.execPath, [VITEST, 'run', '--config', CONFIG], { stdio: 'inherit' });
process.exitCode = done.status ?? 1;
