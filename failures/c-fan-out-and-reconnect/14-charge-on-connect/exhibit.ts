import { once } from 'node:events';
import type { Exhibit } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { LastingConnection, listen, type Listening } from '../connections.ts';
import { openSessions as fixed } from './fixed.ts';
import { openSessions as tempting } from './tempting.ts';

/** The customer's side: connects, and connects again, until it is welcomed. */
async function beWelcomed({ url, connections }: Listening): Promise<void> {
  const connection = new LastingConnection(`${url}/c1`);
  try {
    await once(connection, 'message');
  } finally {
    connection.close();
  }
  if (connections() < 2) throw new Error('the connection was never cut');
}

/** The connection is cut when the fee is charged, before the customer hears of it. */
async function cutAfterTheFee(world: TemptingWorld, openSessions: typeof tempting): Promise<void> {
  const listening = await listen();
  const wire = await world.wire((_request, count) =>
    count === 1 ? { forwardAnd: listening.cut } : 'forward',
  );
  openSessions(listening.server, { ...world, stripeUrl: wire.url });
  try {
    await beWelcomed(listening);
  } finally {
    await listening.close();
  }
}

export const chargeOnConnect: Exhibit = {
  number: 14,
  name: 'charge-on-connect',
  room: 'C',
  title: 'the session fee is charged on connect, and the client reconnects',
  rule: 'To connect is not to buy. The key names what is bought, and outlives the connection.',
  harm: 'chargedAgain',
  tempting: (world) => cutAfterTheFee(world, tempting),
  fixed: (world) => cutAfterTheFee(world, fixed),
  async ours(world) {
    const { client, run } = world;
    const listening = await listen();
    world.defer(() => listening.close());
    let cuts = 0;
    await world.wire(({ path }) => {
      if (!path.endsWith('/confirm') || cuts > 0) return 'forward';
      cuts += 1;
      return { forwardAnd: listening.cut };
    });
    await world.addWorker();
    // Each connection orders the billing, and is welcomed when that is over.
    listening.server.on('connection', (socket) => {
      const begin = async (): Promise<void> => {
        await client.startRun(run, 'session');
        await client.run(run).result();
        socket.send(JSON.stringify({ welcome: true }));
      };
      begin().catch(() => socket.close(1011));
    });
    await beWelcomed(listening);
    // And once more when everything is over.
    await beWelcomed(listening);
  },
};
