import { randomUUID } from 'node:crypto';
import pRetry from 'p-retry';
import type { WebSocketServer } from 'ws';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import { customerOf } from '../connections.ts';

/** The same sessions. The fee belongs to the customer and the period, however often that customer connects. */
export function openSessions(server: WebSocketServer, shop: Shop): void {
  const stripe = stripeOf(shop);
  server.on('connection', (socket, request) => {
    const customer = customerOf(shop, request);
    const session = randomUUID();
    const begin = async (): Promise<void> => {
      const idempotencyKey = stableKey('session-fee', customer.id, shop.period);
      await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
      socket.send(JSON.stringify({ welcome: session }));
    };
    begin().catch(() => socket.close(1011, 'the fee could not be charged'));
  });
}
