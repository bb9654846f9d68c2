import { randomUUID } from 'node:crypto';
import pRetry from 'p-retry';
import type { WebSocketServer } from 'ws';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import { customerOf } from '../connections.ts';

/** Whoever connects has a session, and pays its fee before it begins. */
export function openSessions(server: WebSocketServer, shop: Shop): void {
  const stripe = stripeOf(shop);
  server.on('connection', (socket, request) => {
    const customer = customerOf(shop, request);
    const session = randomUUID();
    const begin = async (): Promise<void> => {
      // A session has one fee, however often the charge is tried.
      const idempotencyKey = `session-fee-${session}`;
      await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
      socket.send(JSON.stringify({ welcome: session }));
    };
    begin().catch(() => socket.close(1011, 'the fee could not be charged'));
  });
}
