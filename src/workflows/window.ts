import { condition } from '@temporalio/workflow';

/**
 * Runs `work` for each item in order, at most `size` at once, and returns how many were started. The
 * place is given back whether the work succeeds or fails, so a failed child never keeps it. `mayStart`
 * is awaited before each start; false ends the window. Throws the first failure after all have ended.
 */
export async function runInWindow<T>(
  items: readonly T[],
  window: { readonly size: number; readonly mayStart: () => Promise<boolean> },
  work: (item: T) => Promise<void>,
): Promise<number> {
  let underWay = 0;
  let started = 0;
  const failures: unknown[] = [];
  const run = async (item: T): Promise<void> => {
    try {
      await work(item);
    } catch (error) {
      failures.push(error);
    } finally {
      underWay -= 1;
    }
  };
  const all: Promise<void>[] = [];
  for (const item of items) {
    await condition(() => underWay < window.size);
    if (!(await window.mayStart())) break;
    underWay += 1;
    started += 1;
    all.push(run(item));
  }
  await Promise.all(all);
  if (failures.length > 0) throw failures[0];
  return started;
}
