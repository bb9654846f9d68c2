import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startSimulator } from '../../../src/simulator/index.ts';
import { clientOf, errorOf, intentParams, readControl, send } from './support.ts';

const PROGRAM = fileURLToPath(new URL('./simulator-process.ts', import.meta.url));
let stateDir: string;
let child: ChildProcess | undefined;

beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'simulator-'));
});
afterEach(async () => {
  await kill();
  rmSync(stateDir, { recursive: true, force: true });
});

async function start(): Promise<{ url: string; port: number }> {
  const started = spawn(process.execPath, [PROGRAM, stateDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child = started;
  const [first] = await once(started.stdout, 'data');
  const url = /http:\S+/.exec(String(first))?.[0] ?? '';
  return { url, port: Number(new URL(url).port) };
}

async function kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<number | null> {
  if (child === undefined || child.exitCode !== null) return null;
  const exited = once(child, 'exit');
  child.kill(signal);
  const [code] = await exited;
  child = undefined;
  return code;
}

const advance = (url: string, advanceMs: number) =>
  fetch(`${url}/_sim/clock`, { method: 'POST', body: JSON.stringify({ advanceMs }) });

describe('with a state folder', () => {
  test('a restarted simulator sends to the webhook endpoint it was given before', async () => {
    const received: string[] = [];
    const endpoint = createServer((req, res) => {
      req.resume().on('end', () => {
        received.push(req.url ?? '');
        res.end();
      });
    });
    endpoint.listen(0, '127.0.0.1');
    await once(endpoint, 'listening');
    const address = endpoint.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    try {
      const first = await startSimulator({ stateDir });
      const url = `http://127.0.0.1:${address.port}/kept`;
      first.setWebhook({ url, secret: 'whsec_kept', types: ['payment_intent.created'] });
      await first.close();
      const second = await startSimulator({ stateDir });
      try {
        await clientOf(second).paymentIntents.create(intentParams('kept', { confirm: true }));
        await expect.poll(() => received).toEqual(['/kept']);
      } finally {
        await second.close();
      }
    } finally {
      endpoint.closeAllConnections();
      endpoint.close();
    }
  });

  test('a killed simulator remembers objects, saved replies, the clock, the log and what is still to happen', async () => {
    const before = await start();
    const stripe = clientOf(before);
    await advance(before.url, 3_600_000);
    const paid = await stripe.paymentIntents.create(intentParams('paid', { confirm: true }), {
      idempotencyKey: 'paid',
    });
    const declined = {
      body: {
        amount: '500',
        currency: 'usd',
        payment_method: 'pm_card_chargeCustomerFail',
        confirm: 'true',
      },
      key: 'declined',
    };
    const decline = await send(before, '/v1/payment_intents', declined);
    const late = await stripe.paymentIntents.create(
      intentParams('late', { metadata: { late: 'yes' } }),
    );
    await errorOf(stripe.paymentIntents.confirm(late.id, {}, { idempotencyKey: 'late' }));
    const eventsBefore = (await stripe.events.list({ limit: 100 })).data;
    const requestsBefore = await readControl(before, 'requests');
    await kill();

    const after = await start();
    const again = clientOf(after);
    const replayed = await again.paymentIntents.create(intentParams('paid', { confirm: true }), {
      idempotencyKey: 'paid',
    });
    expect(replayed).toEqual(paid);
    expect(replayed.lastResponse.headers['idempotent-replayed']).toBe('true');
    const declineAgain = await send(after, '/v1/payment_intents', declined);
    expect([declineAgain.status, declineAgain.text]).toEqual([402, decline.text]);
    expect((await again.events.list({ limit: 100 })).data).toEqual(eventsBefore);
    const requestsAfter = await readControl(after, 'requests');
    expect(requestsAfter.requests.slice(0, requestsBefore.requests.length)).toEqual(
      requestsBefore.requests,
    );
    const clock = await readControl(after, 'clock');
    expect(clock.nowMs).toBeGreaterThanOrEqual(Date.now() + 3_599_000);
    expect(
      (await errorOf(again.paymentIntents.confirm(late.id, {}, { idempotencyKey: 'late' })))
        .statusCode,
    ).toBe(500);
    await advance(after.url, 60_000);
    expect((await again.paymentIntents.retrieve(late.id)).status).toBe('succeeded');
    const ledger = await readControl(after, 'ledger', '?customer=paid');
    expect(ledger.groups).toMatchObject([{ customer: 'paid', succeeded: 1 }]);
  });

  test('a simulator killed in the middle of load has every charge it has answered, once, and its key', async () => {
    const before = await start();
    const answered: string[] = [];
    const lanes = Array.from({ length: 8 }, async (_, lane) => {
      for (let n = 0; n < 500; n += 1) {
        const key = `load-${lane}-${n}`;
        await clientOf(before).paymentIntents.create(
          intentParams(`l${lane}x${n}`, { confirm: true }),
          { idempotencyKey: key },
        );
        answered.push(key);
      }
    });
    const load = Promise.allSettled(lanes);
    await expect.poll(() => answered.length, { timeout: 20_000 }).toBeGreaterThan(50);
    await kill();
    await load;

    const after = await start();
    const known = answered.length;
    for (const key of answered) {
      const [, lane, n] = key.split('-');
      const reply = await clientOf(after).paymentIntents.create(
        intentParams(`l${lane}x${n}`, { confirm: true }),
        { idempotencyKey: key },
      );
      expect(reply.lastResponse.headers['idempotent-replayed']).toBe('true');
    }
    const ledger = await readControl(after, 'ledger');
    expect(ledger.groups.length).toBeGreaterThanOrEqual(known);
    expect(ledger.groups.filter((group) => group.succeeded !== 1)).toEqual([]);
  });

  test('ends with exit code 0 when asked to, and a reset forgets what is on disk', async () => {
    const first = await start();
    await clientOf(first).paymentIntents.create(intentParams('gone'));
    await fetch(`${first.url}/_sim/reset`, { method: 'POST' });
    expect(await kill('SIGTERM')).toBe(0);
    const second = await start();
    expect((await clientOf(second).paymentIntents.list()).data).toEqual([]);
  });

  test('a second simulator on the same folder is refused by name', async () => {
    await start();
    await expect(startSimulator({ stateDir })).rejects.toThrow(/another simulator/);
  });
});

test('a taken port is an error of the start, not of the process', async () => {
  const first = await startSimulator();
  try {
    await expect(startSimulator({ port: first.port })).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
  } finally {
    await first.close();
  }
});
