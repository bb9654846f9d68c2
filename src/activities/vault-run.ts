import type { RunRef } from '../domain/ids.ts';
import { unblockSlots } from '../db/blocked.ts';
import type { RunState } from '../db/runs.ts';
import type { ActivityDeps } from './deps.ts';
import { move, plan, type RunPlan } from './run.ts';

/**
 * Plans the run and has its key opened: a vault that reads another plan than we do, or has revoked the key, stops the
 * run before anybody is charged. A run that was cut off or stopped and is started again also takes up whom the spend cap
 * refused, as a resume does. Twice: one plan, one key.
 */
export async function planOpened(
  deps: ActivityDeps,
  run: RunRef,
  plannedBy: string,
): Promise<RunPlan> {
  const planned = await plan(deps, run, plannedBy);
  if (planned.state === 'completed') return planned;
  await deps.vault?.openRun(run);
  await unblockSlots(deps.db, run);
  return planned;
}

/** Moves the run's row along and closes the key of a run that is over. Twice: the second changes nothing. */
export async function moveAndClose(
  deps: ActivityDeps,
  run: RunRef,
  state: RunState,
): Promise<void> {
  await move(deps, run, state);
  // The vault's own sweep closes it as well: a vault that is away must not hold up the end of a run.
  if (isOver(state)) await deps.vault?.closeRun(run).catch(() => {});
}

function isOver(state: RunState): boolean {
  return state === 'completed' || state === 'stopped';
}
