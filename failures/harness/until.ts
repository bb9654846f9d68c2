import { setTimeout as sleep } from 'node:timers/promises';

const LOOK_EVERY_MS = 5;
/** Far more than anything here takes; then the exhibit fails instead of going on without its fault. */
const GIVE_UP_MS = 20_000;

/** Waits for something to be true. */
export async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + GIVE_UP_MS;
  while (!(await isTrue())) {
    if (performance.now() > giveUpAt) throw new Error('what was waited for did not come');
    await sleep(LOOK_EVERY_MS);
  }
}
