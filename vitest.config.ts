import { defineConfig } from 'vitest/config';

// One project per test folder; what each may touch stands in docs/testing.md.
// Everything past `unit` starts real servers, so files run one at a time on a small machine.
const setupFiles = ['test/support/setup.ts'];
// A process for a project, not for a file: loading what they all need again for each file takes a third of the CPU.
// So a file leaves nothing behind in a module; supports clean up by test/support/end-of-file.ts.
const isolate = false;
const servers = {
  setupFiles,
  isolate,
  fileParallelism: false,
  maxWorkers: 1,
  pool: 'forks' as const,
  // The default of one second is shorter than a process takes to start on a busy machine.
  expect: { poll: { timeout: 20_000, interval: 50 } },
};

// A project of its own, so that it can run beside the other integration tests.
const VAULT = 'test/integration/*vault*.test.ts';

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', isolate, include: ['test/unit/**/*.test.ts'], testTimeout: 60_000 } },
      {
        test: {
          name: 'simulation',
          include: ['test/simulation/**/*.test.ts'],
          testTimeout: 600_000,
          ...servers,
        },
      },
      {
        test: {
          name: 'workflow',
          include: ['test/workflow/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          ...servers,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: ['test/integration/embedded/**', VAULT],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          ...servers,
        },
      },
      {
        test: {
          name: 'vault',
          include: [VAULT],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          ...servers,
        },
      },
      {
        test: {
          name: 'http',
          include: ['test/http/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          ...servers,
        },
      },
      {
        test: {
          name: 'failures',
          include: ['test/failures/**/*.test.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          ...servers,
        },
      },
      {
        test: {
          name: 'embedded',
          include: ['test/integration/embedded/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          ...servers,
        },
      },
      {
        test: {
          name: 'chaos',
          include: ['test/chaos/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 120_000,
          ...servers,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          testTimeout: 240_000,
          hookTimeout: 120_000,
          ...servers,
        },
      },
    ],
  },
});
