import pRetry from 'p-retry';
import type { WebSocketServer } from 'ws';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import type { Command } from './outbox.ts';

/** The same gateway: a command says what is to be charged, and that is its name. */
export function openGateway(server: WebSocketServer, shop: Shop): void {
  const stripe = stripeOf(shop);
  server.on('connection', (socket) => {
    const charge = async ({ seq, customer, period }: Command): Promise<void> => {
      // What the command asks for, whichever session it comes in.
      const idempotencyKey = stableKey('create', customer.id, period);
      await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
      socket.send(JSON.stringify({ ack: seq }));
    };
    socket.on('message', (data: Buffer) => {
      const command: Command = JSON.parse(data.toString());
      // Not acknowledged, so it comes again.
      charge(command).catch(() => socket.terminate());
    });
  });
}
