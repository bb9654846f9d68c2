import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  attend,
  chargesOf,
  customersOf,
  driveCharge,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { behindWire, isConfirm } from '../support/wire-gateway.ts';

const ids = Array.from({ length: 10 }, (_, i) => `k${i}`);
let engine: Engine;
const { claimed } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterAll(() => engine.close());

const refused401 = {
  status: 401,
  body: { error: { type: 'invalid_request_error', message: 'bad key' } },
};

/** The key is refused on every look, and on a confirm once so many have lost their answer. */
async function refusedAfter(lost: number) {
  let confirms = 0;
  const deps = await behindWire(engine, ({ path, method }) => {
    if (method === 'GET') return refused401;
    if (!isConfirm(path)) return 'forward';
    confirms += 1;
    return confirms <= lost ? 'forwardThenClose' : refused401;
  });
  return { deps, confirms: () => confirms };
}

describe('a refused API key', () => {
  it('M17: is indeterminate when the API key is refused on the next attempt', async () => {
    const slot = await claimed();
    const { deps, confirms } = await refusedAfter(2);
    // The look-up is refused as well, so nothing can be decided and nothing more is sent.
    expect(await attend(deps, slot)).toBe('indeterminate');
    expect(confirms()).toBe(2);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it("M17: is indeterminate when the API key is refused on the SDK's own resend", async () => {
    const slot = await claimed();
    const { deps } = await refusedAfter(1);
    const { result } = await driveCharge(deps, slot);
    expect(result?.result).toMatchObject({ outcome: 'indeterminate', reason: 'api_key_refused' });
    expect(await attend(engine.deps, slot)).toBe('charged');
  });

  it('M17: is what Stripe shows when a 401 comes after the confirm took effect, as from a gateway', async () => {
    const slot = await claimed();
    let confirms = 0;
    const deps = await behindWire(engine, ({ path }) => {
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
      const deps = await behindWire(engine, ({ path, method }) => {
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
    const deps = await behindWire(engine, () => refused401);
    const { result } = await driveCharge(deps, slot);
    expect(result?.result).toMatchObject({ outcome: 'misconfigured', stopsRun: true });
  });
});
