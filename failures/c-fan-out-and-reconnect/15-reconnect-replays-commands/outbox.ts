import type { Customer } from '../../harness/exhibit.ts';
import { LastingConnection } from '../connections.ts';

/** An order to charge a customer for a period. */
export interface Command {
  readonly seq: number;
  readonly customer: Customer;
  readonly period: string;
}

interface Acknowledgement {
  readonly ack: number;
}

/**
 * Gives the gateway its commands, and loses none: what is not acknowledged is sent again on the next connection. Ends
 * when everything is acknowledged.
 */
export async function deliver(url: string, commands: readonly Command[]): Promise<void> {
  const waiting = new Map(commands.map((command) => [command.seq, command]));
  const connection = new LastingConnection(url);
  const delivered = new Promise<void>((resolve, reject) => {
    connection.on('open', (socket) => {
      for (const command of waiting.values()) socket.send(JSON.stringify(command));
    });
    connection.on('message', (text) => {
      const { ack }: Acknowledgement = JSON.parse(text);
      waiting.delete(ack);
      if (waiting.size === 0) resolve();
    });
    connection.on('error', reject);
  });
  await delivered.finally(() => connection.close());
}
