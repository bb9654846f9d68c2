// The application with its timer, or the CronJob's pod.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import { runCronJob as fixedCronJob, startTimer as fixedTimer } from './fixed.ts';
import { runCronJob, startTimer } from './tempting.ts';

const shop = await shopOfReplica(process.env);
const isFixed = process.env['WAY'] === 'fixed';
if (process.env['REPLICA'] === '0') {
  await (isFixed ? fixedCronJob : runCronJob)(shop);
} else {
  /** The first of the month comes every second here. */
  const timer = (isFixed ? fixedTimer : startTimer)(shop, '* * * * * *');
  timer.once('execution:finished', () => timer.destroy());
  timer.once('execution:failed', ({ execution }) => {
    throw execution?.error ?? new Error('the billing failed');
  });
}
