import { once } from 'node:events';
import { startSimulator } from './index.ts';
import type { SimulatorOptions } from './index.ts';

/** Runs a simulator as a process of its own until the signal aborts; says where it listens. */
export async function runSimulator(
  options: SimulatorOptions,
  io: { readonly write: (text: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  const simulator = await startSimulator(options);
  io.write(
    `Stripe simulator on ${simulator.url}\n` +
      `  key      any sk_test_… or rk_test_…, for example sk_test_acctDemo_1\n` +
      `  ledger   ${simulator.url}/_sim/ledger\n` +
      `  counters ${simulator.url}/_sim/counters\n`,
  );
  if (!io.signal.aborted) await once(io.signal, 'abort');
  await simulator.close();
}
