import type { FastifyInstance } from 'fastify';
import type { AddressInfo } from 'node:net';

/** The port that a server got. Throws when it listens on none. */
export function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string')
    throw new TypeError('no TCP port was opened');
  return address.port;
}

/** How a plain HTTP server is reached. */
export function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Ends an application: requests under way end within `drainMs`, then their sockets are cut. */
export async function drainApp(app: FastifyInstance, drainMs: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), drainMs);
  try {
    await app.close();
  } finally {
    clearTimeout(cut);
  }
}
