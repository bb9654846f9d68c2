import { sleep } from '@temporalio/workflow';
import * as real from '../../src/workflows/index.ts';

/**
 * Our workflows with one timer more at the start of each: the smallest change that no open workflow
 * survives. Replay tests show with it that they can fail.
 */
export async function customerCharge(...args: Parameters<typeof real.customerCharge>) {
  await sleep(1);
  return real.customerCharge(...args);
}
export async function billingShard(...args: Parameters<typeof real.billingShard>) {
  await sleep(1);
  return real.billingShard(...args);
}
export async function billingSettle(...args: Parameters<typeof real.billingSettle>) {
  await sleep(1);
  return real.billingSettle(...args);
}
export async function billingRun(...args: Parameters<typeof real.billingRun>) {
  await sleep(1);
  return real.billingRun(...args);
}
export async function billingTick(...args: Parameters<typeof real.billingTick>) {
  await sleep(1);
  return real.billingTick(...args);
}
export async function housekeeping(...args: Parameters<typeof real.housekeeping>) {
  await sleep(1);
  return real.housekeeping(...args);
}
