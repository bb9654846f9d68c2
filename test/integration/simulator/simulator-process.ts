// A simulator in a process of its own, so that a test can kill it. Arguments: state folder, port (0 = any).
import { runSimulator } from '../../../src/simulator/main.ts';

const [stateDir = '', port = '0'] = process.argv.slice(2);
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
await runSimulator(
  {
    stateDir,
    port: Number(port),
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
  },
  { write: (text) => process.stdout.write(text), signal: stop.signal },
);
