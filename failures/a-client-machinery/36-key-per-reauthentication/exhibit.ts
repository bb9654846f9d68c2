import type { Exhibit, Shop } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction, WireRequest } from '../../harness/wire-server.ts';
import { sawAllCharged } from '../all-charged.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

/** The token ran out while Stripe was charging, and the gateway looks at it again when it answers. */
const TOKEN_EXPIRED: WireAction = {
  forwardThen: { status: 401, body: { error: 'invalid_token' } },
};

/** A gateway that hands out tokens, the first of which is about to run out. */
function gatewayScript(): (request: WireRequest) => WireAction {
  let issued = 0;
  return ({ path, headers }) => {
    if (path !== '/oauth/token')
      return headers['gateway-token'] === 'token-1' ? TOKEN_EXPIRED : 'forward';
    issued += 1;
    return { status: 200, body: { access_token: `token-${issued}` } };
  };
}

async function throughGateway(
  world: TemptingWorld,
  billEverybody: (shop: Shop) => Promise<void>,
): Promise<void> {
  const gateway = await world.wire(gatewayScript());
  await billEverybody({ ...world, stripeUrl: gateway.url });
}

export const keyPerReauthentication: Exhibit = {
  number: 36,
  name: 'key-per-reauthentication',
  room: 'A',
  title: 'a request interceptor makes the key anew when a 401 is answered with a new token',
  rule: 'To authenticate again is to send the same charge again. Renew the token and nothing else.',
  harm: 'chargedAgain',
  tempting: (world) => throughGateway(world, tempting),
  fixed: (world) => throughGateway(world, fixed),
  async ours(world) {
    let refused = false;
    await world.wire(({ path }) => {
      if (!path.endsWith('/confirm') || refused) return 'forward';
      refused = true;
      return TOKEN_EXPIRED;
    });
    await world.bill();
  },
  oursAlso: sawAllCharged,
};
