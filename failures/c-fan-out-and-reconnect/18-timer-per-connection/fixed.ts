import pRetry from 'p-retry';
import type { WebSocketServer } from 'ws';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import { customerOf } from '../connections.ts';

const HOUR_MS = 60 * 60 * 1_000;

/** As many timers as connections, and all of them ask for the customer's one charge. */
export function billWhileConnected(server: WebSocketServer, shop: Shop): void {
  const stripe = stripeOf(shop);
  server.on('connection', (socket, request) => {
    const customer = customerOf(shop, request);
    const bill = async (): Promise<void> => {
      // The same charge for all connections, and all month.
      const idempotencyKey = stableKey('create', customer.id, shop.period);
      await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
      socket.send(JSON.stringify({ billed: shop.period }));
    };
    const timer = setInterval(() => {
      bill().catch(() => socket.close(1011, 'the billing has failed'));
    }, HOUR_MS);
    socket.on('close', () => clearInterval(timer));
  });
}
