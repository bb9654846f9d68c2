import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger, Worker } from '@temporalio/worker';
import { beforeAll, describe, expect, it } from 'vitest';
import * as workflows from '../../src/workflows/index.ts';
import { parseHistory, readHistories, type StoredHistory } from '../support/histories.ts';
import { quietRuntime, workflowBundle } from '../support/workflow-bench.ts';

const MUTATED = fileURLToPath(new URL('../support/mutated-workflows.ts', import.meta.url));

let histories: readonly StoredHistory[];
beforeAll(async () => {
  quietRuntime();
  histories = await readHistories();
});

/** Names of the histories that this workflow code cannot have made. */
async function diverging(
  options: Parameters<typeof Worker.runReplayHistories>[0],
): Promise<readonly string[]> {
  const replays = histories.map(({ name, text }) => ({
    workflowId: name,
    history: parseHistory(text),
  }));
  const diverged: string[] = [];
  for await (const result of Worker.runReplayHistories(options, replays)) {
    if (result.error !== undefined) diverged.push(`${result.workflowId}: ${result.error.name}`);
  }
  return diverged;
}

describe('the stored histories', () => {
  it('I16: replay on the workflow code of today', async () => {
    expect(await diverging({ workflowBundle: await workflowBundle() })).toEqual([]);
  });

  it('do not replay, not one of them, on workflow code with one command more', async () => {
    const workflowBundle = await bundleWorkflowCode({
      workflowsPath: MUTATED,
      logger: new DefaultLogger('ERROR'),
    });
    const diverged = await diverging({ workflowBundle });
    expect(diverged).toEqual(histories.map(({ name }) => `${name}: DeterminismViolationError`));
  });

  it('cover every workflow there is', () => {
    const types = histories.map(
      ({ text }) =>
        parseHistory(text).events?.[0]?.workflowExecutionStartedEventAttributes?.workflowType
          ?.name ?? '',
    );
    expect([...new Set(types)].sort()).toEqual(Object.keys(workflows).sort());
    expect(histories.length).toBeGreaterThanOrEqual(16);
  });

  it('I15: hold no key, no path of a machine and no stack', () => {
    for (const { name, text } of histories) {
      const decoded = text.replaceAll(/"data":\s*"([A-Za-z0-9+/=]+)"/g, (_all, data: string) =>
        Buffer.from(data, 'base64').toString(),
      );
      expect(
        `${name} ${/sk_|rk_|whsec_|node_modules|file:\/\/|@[a-z]+\.[a-z]/.exec(decoded)?.[0] ?? 'clean'}`,
      ).toBe(`${name} clean`);
    }
  });
});
