import { z } from 'zod';
import type { FaultPlan } from '../simulator/index.ts';

/**
 * What the demo does to its simulator: about one request in ten goes wrong, in every way that makes a
 * careless job charge twice or lose a customer. Each of them leaves its truth at the provider.
 */
export function demoFaults(seed: number): FaultPlan {
  const create = 'payment_intents.create';
  const confirm = 'payment_intents.confirm';
  return {
    seed,
    rules: [
      { id: 'charged, reply lost', endpoint: confirm, kind: 'actThenDrop', rate: 0.04 },
      { id: 'charged, answered 500', endpoint: confirm, kind: 'actThen500', rate: 0.02 },
      { id: 'created, reply lost', endpoint: create, kind: 'actThenDrop', rate: 0.02 },
      { id: 'created, answered 500', endpoint: create, kind: 'actThen500', rate: 0.01 },
      { id: 'reply cut off', endpoint: confirm, kind: 'truncate', rate: 0.01 },
      { id: 'connection reset', endpoint: '*', kind: 'resetBefore', rate: 0.02 },
      { id: 'key in use (409)', endpoint: confirm, kind: 'status409', rate: 0.01 },
      { id: 'rate limited (429)', endpoint: '*', kind: 'status429', rate: 0.02 },
      { id: 'gateway error (503)', endpoint: confirm, kind: 'status503', rate: 0.01 },
    ],
  };
}

/** Sets the simulator's faults, or with null ends them. */
export async function setFaults(simulatorUrl: string, plan: FaultPlan | null): Promise<void> {
  const answer = await fetch(`${simulatorUrl}/_sim/faults`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(plan ?? { rules: [] }),
  });
  if (!answer.ok) throw new Error(`the simulator refused the fault plan: ${await answer.text()}`);
}

const countersSchema = z.object({
  faults: z.array(z.object({ id: z.string(), fired: z.number() })),
});

/** How often each fault has fired. */
export async function faultsFired(
  simulatorUrl: string,
): Promise<readonly { readonly id: string; readonly fired: number }[]> {
  const answer = await fetch(`${simulatorUrl}/_sim/counters`);
  return countersSchema.parse(await answer.json()).faults;
}
