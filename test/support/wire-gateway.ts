import { startWireServer, type WireScript } from '../../failures/harness/wire-server.ts';
import type { ActivityDeps } from '../../src/activities/deps.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import { atEndOfFile } from './end-of-file.ts';
import { TEST_KEY, type Engine } from './engine.ts';

/** The engine's activities behind a provider on the socket that does as the script says; it closes with the file. */
export async function behindWire(engine: Engine, script: WireScript): Promise<ActivityDeps> {
  const server = await startWireServer(script, engine.simulator.url);
  atEndOfFile(() => server.close());
  return engine.with({
    gateway: createStripeGateway({ apiKey: TEST_KEY, apiBase: server.url, timeoutMs: 5_000 }),
  });
}

/** Whether a request path is that of a confirm. */
export function isConfirm(path: string): boolean {
  return path.endsWith('/confirm');
}
