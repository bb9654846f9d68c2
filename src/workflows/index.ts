export { billingTick } from './billing-tick.ts';
export { billingRun } from './billing-run.ts';
export { billingShard } from './billing-shard.ts';
export { billingSettle } from './billing-settle.ts';
export { housekeeping } from './housekeeping.ts';
export { customerCharge } from './customer-charge.ts';
