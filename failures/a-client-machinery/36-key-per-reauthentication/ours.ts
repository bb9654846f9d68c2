import { setTimeout as sleep } from 'node:timers/promises';
import { parseCustomerId } from '../../../src/domain/customer-id.ts';
import type { SlotRef } from '../../../src/domain/ids.ts';
import type { OursWorld } from '../../harness/ours-world.ts';

const LOOK_EVERY_MS = 20;
/** Far more than it takes; then the exhibit fails. */
const GIVE_UP_AFTER = 1_000;
const ORDER = { operator: 'gallery', reason: 'the key is mended' };

/** Bills, and after the 401 does all that an operator may do: resume the run, then charge the customer again. */
export async function billResumeAndRerun(world: OursWorld): Promise<void> {
  const { client, run } = world;
  await world.addWorker();
  await client.startRun(run, 'gallery');
  await untilPaused(world);
  await client.resume(run, ORDER);
  await client.run(run).result();
  const answer = await client.rerunCustomer({ ...slotOf(world), ...ORDER });
  if (answer !== 'accepted') throw new Error(`the rerun was answered with ${answer}`);
  await client.run(run).result();
}

async function untilPaused({ client, run }: OursWorld): Promise<void> {
  for (let look = 0; look < GIVE_UP_AFTER; look += 1) {
    const progress = await client.progress(run);
    if (progress?.phase === 'paused') return;
    await sleep(LOOK_EVERY_MS);
  }
  throw new Error('the run did not pause after a refused key');
}

function slotOf({ run, customers }: OursWorld): SlotRef {
  const parsed = parseCustomerId(customers[0]?.id ?? '');
  if (!parsed.ok) throw new TypeError(parsed.problem);
  return { ...run, customerId: parsed.customerId };
}
