import { randomUUID } from 'node:crypto';
import pRetry from 'p-retry';
import type { WebSocketServer } from 'ws';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import { customerOf } from '../connections.ts';

const HOUR_MS = 60 * 60 * 1_000;

/** Whoever is connected is billed within the hour, once in a period. */
export function billWhileConnected(server: WebSocketServer, shop: Shop): void {
  const stripe = stripeOf(shop);
  server.on('connection', (socket, request) => {
    const customer = customerOf(shop, request);
    const connection = randomUUID();
    const bill = async (): Promise<void> => {
      // The timer fires every hour, and it is the same charge all month.
      const idempotencyKey = `${connection}-${shop.period}`;
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
