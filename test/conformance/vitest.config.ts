import { defineConfig } from 'vitest/config';

// Apart from the other projects: it needs stripe-mock, which needs Go. Started by run.ts.
export default defineConfig({
  test: {
    name: 'conformance',
    include: ['test/conformance/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
