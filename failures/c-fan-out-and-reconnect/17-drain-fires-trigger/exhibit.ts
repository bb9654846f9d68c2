import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { Exhibit } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction } from '../../harness/wire-server.ts';
import { until } from '../../harness/until.ts';
import { orderAllAgain, orderCharge } from '../orders.ts';
import { billInStep as fixed } from './fixed.ts';
import { billInStep as tempting } from './tempting.ts';

const TRIGGERS = 3;
/** What the rest of the application has to tell accounting, a page of it. */
const PAGE = Buffer.alloc(256 * 1024, '.');

interface Accounting {
  readonly socket: Socket;
  close(): Promise<void>;
}

/** Accounting, which reads what it is sent; and a connection to it. */
async function connectAccounting(): Promise<Accounting> {
  const server = createServer((reader) => reader.on('error', () => {}).resume());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
  const socket = connect(address.port, '127.0.0.1');
  await once(socket, 'connect');
  return {
    socket,
    async close() {
      const closed = once(server, 'close');
      socket.destroy();
      server.close();
      await closed;
    },
  };
}

/** Others write to the same connection until it takes no more. Accounting reads, so it becomes writable again. */
function fill(socket: Socket): void {
  while (socket.write(PAGE));
}

/** While the first charge is on its way, others write to the same connection, and it becomes writable again. */
async function othersWriteToo(world: TemptingWorld, billInStep: typeof tempting): Promise<void> {
  const accounting = await connectAccounting();
  const allTriggered = gateFor(TRIGGERS);
  const wire = await world.wire(async (_request, count): Promise<WireAction> => {
    if (count < TRIGGERS) fill(accounting.socket);
    await allTriggered.pass();
    return 'forward';
  });
  try {
    billInStep({ ...world, stripeUrl: wire.url }, accounting.socket);
    const answered = (): number =>
      world.stripe.requests().filter(({ status }) => status === 200).length;
    await until(() => answered() >= TRIGGERS);
  } finally {
    await accounting.close();
  }
}

export const drainFiresTrigger: Exhibit = {
  number: 17,
  name: 'drain-fires-trigger',
  room: 'C',
  title: 'the connection is "writable again", and each time the billing goes on',
  rule: 'An event that says "you may go on" may come at any time and any number of times. It must not be what makes a charge one.',
  harm: 'chargedAgain',
  tempting: (world) => othersWriteToo(world, tempting),
  fixed: (world) => othersWriteToo(world, fixed),
  async ours(world) {
    const { client, run } = world;
    const accounting = await connectAccounting();
    world.defer(() => accounting.close());
    await world.addWorker();
    const orders: Promise<unknown>[] = [];
    accounting.socket.on('drain', () => {
      const trigger = `drain-${orders.length + 1}`;
      orders.push(...world.customers.map((customer) => orderCharge(world, { customer, trigger })));
      if (orders.length < TRIGGERS) fill(accounting.socket);
    });
    fill(accounting.socket);
    await until(() => orders.length >= TRIGGERS);
    await Promise.all(orders);
    await client.run(run).result();
    await orderAllAgain(world, 'a-late-drain');
  },
};
