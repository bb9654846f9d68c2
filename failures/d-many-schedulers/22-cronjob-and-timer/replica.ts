// The application with its timer, or the CronJob's pod.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import * as fixed from './fixed.ts';
import * as tempting from './tempting.ts';

const shop = await shopOfReplica(process.env);
const { startTimer, runCronJob } = process.env['WAY'] === 'fixed' ? fixed : tempting;
if (process.env['REPLICA'] === '0') {
  await runCronJob(shop);
} else {
  /** The first of the month comes every second here. */
  const timer = startTimer(shop, '* * * * * *');
  timer.once('execution:finished', () => timer.destroy());
  timer.once('execution:failed', ({ execution }) => {
    throw execution?.error ?? new Error('the billing failed');
  });
}
