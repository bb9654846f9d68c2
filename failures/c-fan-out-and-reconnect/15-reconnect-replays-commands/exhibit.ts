import { randomUUID } from 'node:crypto';
import type { Exhibit, Shop } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction } from '../../harness/wire-server.ts';
import { listen } from '../connections.ts';
import { orderAllAgain, orderCharge } from '../orders.ts';
import { openGateway as fixed } from './fixed.ts';
import { deliver, type Command } from './outbox.ts';
import { openGateway as tempting } from './tempting.ts';

const CUSTOMERS = 2;

function commandsOf({ customers, period }: Shop): Command[] {
  return customers.map((customer, at) => ({ seq: at + 1, customer, period }));
}

/** The connection is cut when all commands are carried out and none is acknowledged. */
async function cutBeforeAcknowledged(
  world: TemptingWorld,
  openGateway: typeof tempting,
): Promise<void> {
  const gateway = await listen();
  const allCharged = gateFor(CUSTOMERS);
  const cut = async (): Promise<void> => {
    await allCharged.pass();
    gateway.cut();
  };
  const wire = await world.wire((_request, count): WireAction =>
    count <= CUSTOMERS ? { forwardAnd: cut } : 'forward',
  );
  openGateway(gateway.server, { ...world, stripeUrl: wire.url });
  try {
    await deliver(gateway.url, commandsOf(world));
  } finally {
    await gateway.close();
  }
}

export const reconnectReplaysCommands: Exhibit = {
  number: 15,
  name: 'reconnect-replays-commands',
  room: 'C',
  title:
    'unacknowledged commands are sent again on reconnect, and the key is the session and a number',
  rule: 'What is sent again has to keep its name. A session is new after each reconnect; what the command asks for is not.',
  harm: 'chargedAgain',
  customers: CUSTOMERS,
  harmed: CUSTOMERS,
  tempting: (world) => cutBeforeAcknowledged(world, tempting),
  fixed: (world) => cutBeforeAcknowledged(world, fixed),
  async ours(world) {
    const gateway = await listen();
    world.defer(() => gateway.close());
    await world.addWorker();
    const allOrdered = gateFor(CUSTOMERS);
    // The same gateway, with ids of orders that are as new as its sessions.
    gateway.server.on('connection', (socket) => {
      const session = randomUUID();
      const order = async ({ seq, customer }: Command): Promise<void> => {
        await orderCharge(world, { customer, trigger: `${session}-${seq}` });
        await allOrdered.pass();
        if (gateway.connections() === 1) gateway.cut();
        else socket.send(JSON.stringify({ ack: seq }));
      };
      socket.on('message', (data: Buffer) => {
        const command: Command = JSON.parse(data.toString());
        order(command).catch(() => socket.terminate());
      });
    });
    await deliver(gateway.url, commandsOf(world));
    await world.client.run(world.run).result();
    await orderAllAgain(world, 'another-session');
    if (gateway.connections() < 2) throw new Error('the connection was never cut');
  },
};
