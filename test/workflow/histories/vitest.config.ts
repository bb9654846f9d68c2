import { defineConfig } from 'vitest/config';

// Not part of any project: it rewrites the committed histories from a real run (npm run histories).
export default defineConfig({
  test: {
    name: 'histories',
    include: ['test/workflow/histories/record.ts'],
    root: new URL('../../..', import.meta.url).pathname,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: 'forks',
  },
});
