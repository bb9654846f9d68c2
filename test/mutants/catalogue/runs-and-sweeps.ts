import { integration, workflow } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

/** The workflows around a charge: windows, retries, the sweep. */
export const RUNS_AND_SWEEPS: readonly Mutant[] = [
  {
    id: 'M18',
    bug: 'a failed child keeps its place in the window',
    edits: [
      {
        file: 'src/workflows/start-child.ts',
        find: "      return { outcome: 'indeterminate', reason: 'workflow_failed', stopsRun: false };",
        replace: '      return new Promise<never>(() => {});',
      },
    ],
    catcher: workflow(
      'billing-run',
      'goes on with the others when more customers fail than have room at once',
    ),
  },
  {
    id: 'M19',
    bug: 'a record that fails leads back to the charge',
    edits: [
      {
        file: 'src/workflows/policies.ts',
        find: "  localRetryThreshold: '5 seconds',\n  retry: {\n",
        replace: "  localRetryThreshold: '5 seconds',\n  retry: {\n    maximumAttempts: 2,\n",
      },
      {
        file: 'src/workflows/customer-charge.ts',
        find: '  return recordResult(slot, charged);',
        replace: `  try {
    return await recordResult(slot, charged);
  } catch {
    return recordResult(slot, await charge({ ...slot, generation }));
  }`,
      },
    ],
    catcher: workflow(
      'customer-charge',
      'tries a failing record again by itself and never charges again for it',
    ),
  },
  {
    id: 'look-sends',
    bug: 'a look that may only read goes on to the charge',
    edits: [
      {
        file: 'src/workflows/customer-charge.ts',
        find: "    return ended('indeterminate', found.kind === 'unknown' ? found.reason : 'not_sent_again');",
        replace: `    if (found.kind === 'resumable') return await chargeAndRecord(slot, found.generation);
    return ended('indeterminate', found.reason);`,
      },
    ],
    catcher: workflow(
      'housekeeping',
      'only reads, and sends nothing, for a run that was paused or stopped',
    ),
  },
  {
    id: 'sweep-bills',
    bug: 'the sweep bills for a run that was stopped',
    edits: [
      {
        file: 'src/workflows/housekeeping.ts',
        find: 'slot.readOnly || !mayBill ?',
        replace: '!mayBill ?',
      },
    ],
    catcher: workflow(
      'housekeeping',
      'only reads, and sends nothing, for a run that was paused or stopped',
    ),
  },
  {
    id: 'sweep-list',
    bug: "the sweep's list says of a stopped run's slot in review that it may be charged",
    edits: [
      {
        file: 'src/db/sweep.ts',
        find: `r.control <> 'running' AS "readOnly"`,
        replace: 'false AS "readOnly"',
      },
    ],
    catcher: integration(
      'resolve',
      'leaves alone what somebody looked at just now, and only reads where the run is held',
    ),
  },
  {
    id: 'sweep-key',
    bug: 'the sweep goes on billing after Stripe has refused the key',
    edits: [
      {
        file: 'src/workflows/housekeeping.ts',
        find: 'if (result.stopsRun) mayBill = false;',
        replace: 'void mayBill;',
      },
    ],
    catcher: workflow('housekeeping', 'sends no more once Stripe has refused the key'),
  },
];
