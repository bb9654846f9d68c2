// A simulator in a process of its own, so that a test can kill it. Argument: state folder.
import { once } from 'node:events';
import { startSimulator } from '../../../src/simulator/index.ts';

const [stateDir = ''] = process.argv.slice(2);
const simulator = await startSimulator({
  stateDir,
  endpointRate: 0,
  accountRate: 0,
  faults: {
    rules: [
      {
        id: 'late',
        endpoint: 'payment_intents.confirm',
        kind: 'lateSuccess500',
        delayMs: 60_000,
        where: { late: 'yes' },
      },
    ],
  },
});
process.stdout.write(`${simulator.url}\n`);
await once(process, 'SIGTERM');
await simulator.close();
