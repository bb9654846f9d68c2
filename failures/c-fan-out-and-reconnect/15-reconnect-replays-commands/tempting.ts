import { randomUUID } from 'node:crypto';
import pRetry from 'p-retry';
import type { WebSocketServer } from 'ws';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import type { Command } from './outbox.ts';

/** Charges as it is told, and acknowledges. */
export function openGateway(server: WebSocketServer, shop: Shop): void {
  const stripe = stripeOf(shop);
  server.on('connection', (socket) => {
    const session = randomUUID();
    const charge = async ({ seq, customer }: Command): Promise<void> => {
      // Session and number name the command: one that comes twice is charged once.
      const idempotencyKey = `${session}-${seq}`;
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
