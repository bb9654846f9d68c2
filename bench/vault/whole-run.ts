import { benchRun, measureRun, round } from '../measure-run.ts';
import { openBenchStack } from '../stack.ts';
import { mkdirSync } from 'node:fs';
import path from 'node:path';

/** A whole run with the vault between against the same without it, in turns, each on a stack of its own. */
export async function measureWholeRuns(
  home: string,
  { quick, note }: { readonly quick: boolean; readonly note: (message: string) => void },
) {
  const customers = quick ? 500 : 1_000;
  const speeds = { without: 0, through: 0 };
  const cpu = { without: 0, through: 0 };
  const turns = quick ? 1 : 3;
  for (let turn = 0; turn < turns; turn += 1) {
    for (const kind of ['without', 'through'] as const) {
      note(`a run of ${customers} customers ${kind} the vault`);
      const folder = path.join(home, `run-${turn}-${kind}`);
      mkdirSync(folder, { mode: 0o711 });
      const platform = await openBenchStack({
        home: folder,
        chargesPerSecond: 0,
        endpointRate: 0,
        vault: kind === 'through',
        note: () => {},
      });
      try {
        const run = await measureRun(platform, benchRun('2026-01'), customers);
        speeds[kind] += run.customersPerSecond / turns;
        cpu[kind] += run.cpuMsPerCustomer / turns;
        note(`  CPU by part, ms a customer: ${JSON.stringify(run.cpuMsByPart)}`);
      } finally {
        await platform.close();
      }
    }
  }
  return {
    customersPerSecondWithout: round(speeds.without),
    customersPerSecondThrough: round(speeds.through),
    cpuMsPerCustomerWithout: round(cpu.without),
    cpuMsPerCustomerThrough: round(cpu.through),
    wholeRunRatio: Math.round((speeds.through / speeds.without) * 1_000) / 1_000,
  };
}
