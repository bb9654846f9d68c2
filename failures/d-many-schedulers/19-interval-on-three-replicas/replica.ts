// One replica of the application: it starts its timer and ends when that has fired once.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import { scheduleBilling as fixed } from './fixed.ts';
import { scheduleBilling as tempting } from './tempting.ts';

const shop = await shopOfReplica(process.env);
const scheduleBilling = process.env['WAY'] === 'fixed' ? fixed : tempting;
/** The first of the month comes every second here. */
const billing = scheduleBilling(shop, '* * * * * *');
billing.once('execution:finished', () => billing.destroy());
billing.once('execution:failed', ({ execution }) => {
  throw execution?.error ?? new Error('the billing failed');
});
