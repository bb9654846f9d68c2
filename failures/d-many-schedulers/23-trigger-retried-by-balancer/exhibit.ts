import { hashApiToken, newApiToken } from '../../../src/api-token.ts';
import { insertApiToken } from '../../../src/db/api-tokens.ts';
import type { Exhibit, Shop } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { OursWorld } from '../../harness/ours-world.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { startWireServer, type WireAction } from '../../harness/wire-server.ts';
import { startBalancer } from './balancer.ts';
import { backOffice as fixed } from './fixed.ts';
import { backOffice as tempting } from './tempting.ts';

const SERVERS = 3;

/** One press of the button. The balancer gives the first server up while the first charge is on its way. */
async function pressOnce(world: TemptingWorld, way: 'tempting' | 'fixed'): Promise<void> {
  const late = new AbortController();
  const charging = gateFor(2);
  const wire = await world.wire(async (): Promise<WireAction> => {
    late.abort();
    await charging.pass();
    return 'forward';
  });
  const shop: Shop = { ...world, stripeUrl: wire.url };
  const build = way === 'fixed' ? fixed : tempting;
  const apps = Array.from({ length: SERVERS }, () => build(shop));
  const urls = await Promise.all(apps.map((app) => app.listen({ host: '127.0.0.1', port: 0 })));
  const balancer = await startBalancer(urls, late.signal);
  try {
    await fetch(`${balancer.url}/admin/bill-now`, { method: 'POST' });
  } finally {
    await balancer.close();
    // Waits for the server that the balancer has given up: it still bills.
    await Promise.all(apps.map((app) => app.close()));
  }
}

/** A token of an operator, as `chargeonce tokens create` makes it. */
async function operatorToken({ database }: OursWorld): Promise<string> {
  const { tokenId, token } = newApiToken();
  const secretHash = hashApiToken(token);
  const order = { name: 'olga', role: 'operator', lifeDays: 1, operator: 'exhibit' } as const;
  await insertApiToken(database.db, { tokenId, secretHash, ...order });
  return token;
}

/** Three servers; the answers of the first two are lost on their way to the balancer. */
async function startServers(world: OursWorld): Promise<string[]> {
  const servers = await Promise.all(Array.from({ length: SERVERS }, () => world.addServer()));
  return Promise.all(
    servers.map(async ({ url }, at) => {
      if (at === SERVERS - 1) return url;
      const network = await startWireServer(() => 'forwardThenClose', url);
      world.defer(() => network.close());
      return network.url;
    }),
  );
}

export const triggerRetriedByBalancer: Exhibit = {
  number: 23,
  name: 'trigger-retried-by-balancer',
  room: 'D',
  title: 'one press of "bill now", and the load balancer sends it to the next server',
  rule: 'One request may reach several servers. Its key has to come with it, or from what it asks for.',
  harm: 'chargedAgain',
  tempting: (world) => pressOnce(world, 'tempting'),
  fixed: (world) => pressOnce(world, 'fixed'),
  async ours(world) {
    const { client, run } = world;
    await world.addWorker();
    const balancer = await startBalancer(await startServers(world));
    world.defer(() => balancer.close());
    const token = await operatorToken(world);
    const press = async (key: string): Promise<number> => {
      const answer = await fetch(`${balancer.url}/v1/runs`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'idempotency-key': key,
        },
        body: JSON.stringify({ period: run.period }),
      });
      return answer.status;
    };
    // One press, retried by the balancer; the same again by the browser; and a colleague presses as well.
    const statuses = await Promise.all([press('press-1'), press('press-1'), press('press-2')]);
    if (!statuses.every((status) => status === 202 || status === 409))
      throw new Error(`the servers answered ${statuses.join(', ')}`);
    await client.run(run).result();
  },
};
