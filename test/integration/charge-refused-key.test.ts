import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import { startWireServer, type WireServer } from '../../failures/harness/wire-server.ts';
import {
  attend,
  chargesOf,
  customersOf,
  driveCharge,
  startEngine,
  TEST_KEY,
  type Engine,
} from '../support/engine.ts';

const ids = Array.from({ length: 10 }, (_, i) => `k${i}`);
let engine: Engine;
const { claimed } = customersOf(() => engine, ids);
const servers: WireServer[] = [];

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()));
  await engine.close();
});

const isConfirm = (path: string) => path.endsWith('/confirm');
const refused401 = {
  status: 401,
  body: { error: { type: 'invalid_request_error', message: 'bad key' } },
};

async function behind(script: Parameters<typeof startWireServer>[0]) {
  const server = await startWireServer(script, engine.simulator.url);
  servers.push(server);
  return engine.with({
    gateway: createStripeGateway({ apiKey: TEST_KEY, apiBase: server.url, timeoutMs: 5_000 }),
  });
}

describe('a refused API key', () => {
  it('M17: is indeterminate when the API key is refused on the next attempt', async () => {
    const slot = await claimed();
    let confirms = 0;
    const deps = await behind(({ path, method }) => {
      if (method === 'GET') return refused401;
      if (!isConfirm(path)) return 'forward';
      confirms += 1;
      return confirms <= 2 ? 'forwardThenClose' : refused401;
    });
    // The look-up is refused as well, so nothing can be decided and nothing more is sent.
    expect(await attend(deps, slot)).toBe('indeterminate');
    expect(confirms).toBe(2);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it("M17: is indeterminate when the API key is refused on the SDK's own resend", async () => {
    const slot = await claimed();
    let confirms = 0;
    const deps = await behind(({ path, method }) => {
      if (method === 'GET') return refused401;
      if (!isConfirm(path)) return 'forward';
      confirms += 1;
      return confirms === 1 ? 'forwardThenClose' : refused401;
    });
    const { result } = await driveCharge(deps, slot);
    expect(result?.result).toMatchObject({ outcome: 'indeterminate', reason: 'api_key_refused' });
    expect(await attend(engine.deps, slot)).toBe('charged');
  });

  it('M17: is what Stripe shows when a 401 comes after the confirm took effect, as from a gateway', async () => {
    const slot = await claimed();
    let confirms = 0;
    const deps = await behind(({ path }) => {
      if (!isConfirm(path)) return 'forward';
      confirms += 1;
      return { forwardThen: refused401 };
    });
    const { result } = await driveCharge(deps, slot);
    expect(result?.result).toMatchObject({ outcome: 'charged' });
    expect(confirms).toBe(1);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it.each(['resetBefore', 'shows that nothing was charged'])(
    'is misconfigured and stops the run when a 401 comes to the first confirm, and the look %s',
    async (look) => {
      const slot = await claimed();
      const deps = await behind(({ path, method }) => {
        if (method === 'GET' && look === 'resetBefore') return 'close';
        return isConfirm(path) ? refused401 : 'forward';
      });
      const { result } = await driveCharge(deps, slot);
      expect(result?.result).toMatchObject({ outcome: 'misconfigured', stopsRun: true });
      expect(chargesOf(engine.simulator, slot.customerId)).toBe(0);
    },
  );

  it('is misconfigured and stops the run when the API key is refused before anything was sent', async () => {
    const slot = await claimed();
    const deps = await behind(() => refused401);
    const { result } = await driveCharge(deps, slot);
    expect(result?.result).toMatchObject({ outcome: 'misconfigured', stopsRun: true });
  });
});
