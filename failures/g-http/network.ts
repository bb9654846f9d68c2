import type { FastifyInstance } from 'fastify';
import { startWireServer, type WireScript } from '../harness/wire-server.ts';

/** Serves the application behind a network that does what the script says, for as long as the work takes. */
export async function served(
  app: FastifyInstance,
  script: WireScript,
  work: (url: string) => Promise<unknown>,
): Promise<void> {
  const target = await app.listen({ host: '127.0.0.1', port: 0 });
  const network = await startWireServer(script, target);
  try {
    await work(network.url);
  } finally {
    await network.close();
    // Waits for handlers whose client is gone: they go on.
    await app.close();
  }
}

export const losesNothing: WireScript = () => 'forward';
