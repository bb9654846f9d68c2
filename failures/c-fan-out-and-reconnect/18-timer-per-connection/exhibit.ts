import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mock } from 'node:test';
import type { Exhibit } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { LastingConnection, listen, type Listening } from '../connections.ts';
import { orderAllAgain, orderCharge } from '../orders.ts';
import { billWhileConnected as fixed } from './fixed.ts';
import { billWhileConnected as tempting } from './tempting.ts';

const HOUR_MS = 60 * 60 * 1_000;
/** An hour where the timers are real: Temporal's workers have timers as well. */
const SHORT_HOUR_MS = 50;
/** So often each connection's timer fires there. */
const HOURS = 2;
/** The customer's telephone and laptop. */
const DEVICES = 2;

/** All devices are connected; ends when each has been told that its customer is billed. */
async function connectAll({ url }: Listening, thenPass: () => void): Promise<void> {
  const devices = Array.from({ length: DEVICES }, () => new LastingConnection(`${url}/c1`));
  try {
    await Promise.all(devices.map((device) => once(device, 'open')));
    const billed = devices.map((device) => once(device, 'message'));
    thenPass();
    await Promise.all(billed);
  } finally {
    for (const device of devices) device.close();
  }
}

/** Both devices are connected for an hour. */
async function anHourPasses(
  world: TemptingWorld,
  billWhileConnected: typeof tempting,
): Promise<void> {
  const listening = await listen();
  mock.timers.enable({ apis: ['setInterval'] });
  try {
    billWhileConnected(listening.server, world);
    await connectAll(listening, () => mock.timers.tick(HOUR_MS));
  } finally {
    // In this order: each connection that ends clears its timer.
    await listening.close();
    mock.timers.reset();
  }
}

export const timerPerConnection: Exhibit = {
  number: 18,
  name: 'timer-per-connection',
  room: 'C',
  title: 'each connection has a billing timer, and a customer has two connections',
  rule: 'A customer has one bill and any number of connections. A timer may only ask; whose charge it is, the key says.',
  harm: 'chargedAgain',
  tempting: (world) => anHourPasses(world, tempting),
  fixed: (world) => anHourPasses(world, fixed),
  async ours(world) {
    const { client, run, customers } = world;
    const listening = await listen();
    world.defer(() => listening.close());
    await world.addWorker();
    listening.server.on('connection', (socket) => {
      const connection = randomUUID();
      let hours = 0;
      const bill = async (): Promise<void> => {
        hours += 1;
        const trigger = `${connection}-hour-${hours}`;
        for (const customer of customers) await orderCharge(world, { customer, trigger });
        await client.run(run).result();
        socket.send(JSON.stringify({ billed: run.period }));
      };
      const timer = setInterval(() => {
        if (hours < HOURS) bill().catch(() => socket.close(1011));
      }, SHORT_HOUR_MS);
      socket.on('close', () => clearInterval(timer));
    });
    await connectAll(listening, () => {});
    await orderAllAgain(world, 'a-third-connection');
  },
};
