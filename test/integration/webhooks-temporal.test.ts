import { once } from 'node:events';
import http from 'node:http';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EnvironmentMismatch } from '../../src/db/environment.ts';
import { customerWorkflowId } from '../../src/domain/ids.ts';
import { Secret } from '../../src/secret.ts';
import { startServer, type RunningServer, type ServerOptions } from '../../src/server.ts';
import { signPayload } from '../../src/simulator/webhooks.ts';
import { attend, chargesOf, readSlot, setFaults, slotRef, TEST_KEY } from '../support/engine.ts';
import { startQuietDevServer, startStack, type Stack } from '../support/stack.ts';
import { eventOf, keepingLog, WEBHOOK_SECRET } from '../support/webhooks.ts';

let env: TestWorkflowEnvironment;
let stack: Stack;
const servers: RunningServer[] = [];
const kept = keepingLog();

beforeAll(async () => {
  env = await startQuietDevServer();
  stack = await startStack(env);
  await stack.plan(['s1', 's2', 's3', 's4'].map((id) => ({ id })));
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.shutdown()));
  await stack.close();
  await env.teardown();
});

async function addServer(more: Partial<ServerOptions> = {}): Promise<RunningServer> {
  const server = await startServer({
    databaseUrl: new Secret(stack.databaseUrl),
    temporal: { connection: { address: env.address }, namespace: 'default' },
    stripe: { apiKey: new Secret(TEST_KEY), apiBase: stack.simulator.url, timeoutMs: 5_000 },
    mode: 'test',
    webhookSecrets: [new Secret(WEBHOOK_SECRET)],
    host: '127.0.0.1',
    port: 0,
    log: kept.log,
    ...more,
  });
  servers.push(server);
  return server;
}

const subscribe = (server: RunningServer) =>
  stack.simulator.setWebhook({ url: `${server.url}/webhooks/stripe`, secret: WEBHOOK_SECRET });

const stateOf = async (customer: string) => (await readSlot(stack.db, slotRef(customer))).state;

describe('simulator, server, Temporal and worker', () => {
  it('write down a charge that was answered 500 and succeeded later, with the event as only sign', async () => {
    subscribe(await addServer());
    setFaults(stack.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'lateSuccess500',
      delayMs: 60_000,
      limit: 1,
    });
    // As a run would have left it that is over: nobody asks Stripe by himself any more.
    expect(await attend(stack.deps, slotRef('s1'), 1)).toBe('indeterminate');
    stack.simulator.advanceClock(60_000);
    await expect.poll(() => stateOf('s1')).toBe('charged');
    expect(chargesOf(stack.simulator, 's1')).toBe(1);
    const handle = stack.client.temporal.workflow.getHandle(customerWorkflowId(slotRef('s1')));
    await expect.poll(async () => (await handle.describe()).status.name).toBe('COMPLETED');
  });

  it('H11: write down one charge for its two events, each sent twice, with two servers at work', async () => {
    const second = await addServer();
    setFaults(stack.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'actThen500',
      limit: 1,
    });
    stack.simulator.setWebhook({
      url: `${second.url}/webhooks/stripe`,
      secret: WEBHOOK_SECRET,
      mode: 'hold',
    });
    expect(await attend(stack.deps, slotRef('s2'), 1)).toBe('indeterminate');
    await stack.simulator.deliver({ copies: 2 });
    await expect.poll(() => stateOf('s2')).toBe('charged');
    expect(chargesOf(stack.simulator, 's2')).toBe(1);
    const events = () =>
      stack.db
        .selectFrom('webhook_events')
        .select('state')
        .where('customer_id', '=', 's2')
        .execute();
    await expect.poll(events).toEqual([{ state: 'processed' }, { state: 'processed' }]);
  });

  it('keep an event that comes while Temporal is away', async () => {
    const away = await addServer({
      temporal: {
        connection: { address: '127.0.0.1:1', connectTimeout: 500 },
        namespace: 'default',
      },
      // Of its own, so that no other server takes the event over.
      webhookSecrets: [new Secret('whsec_while_away')],
    });
    await Promise.all(servers.filter((one) => one !== away).map((one) => one.shutdown()));
    setFaults(stack.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'actThen500',
      limit: 1,
    });
    stack.simulator.setWebhook({
      url: `${away.url}/webhooks/stripe`,
      secret: 'whsec_while_away',
      types: ['payment_intent.succeeded'],
    });
    expect(await attend(stack.deps, slotRef('s3'), 1)).toBe('indeterminate');
    const event = () =>
      stack.db
        .selectFrom('webhook_events')
        .select(['state', 'last_error'])
        .where('customer_id', '=', 's3')
        .executeTakeFirst();
    await expect.poll(async () => (await event())?.last_error ?? null).not.toBeNull();
    expect(await event()).toMatchObject({ state: 'received' });
    await away.shutdown();
    await addServer();
    await expect.poll(() => stateOf('s3')).toBe('charged');
    expect(chargesOf(stack.simulator, 's3')).toBe(1);
  });

  it('answer what is under way when asked to stop, and take nothing more', async () => {
    const server = await addServer();
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
    const body = eventOf({ id: 'evt_under_way' });
    const signature = signPayload(body, WEBHOOK_SECRET, Math.floor(Date.now() / 1000));
    const request = http.request(`${server.url}/webhooks/stripe`, {
      method: 'POST',
      headers: {
        'Content-Length': Buffer.byteLength(body),
        'Stripe-Signature': signature,
        // The server says that it has taken the request before the body is sent.
        Expect: '100-continue',
      },
    });
    await once(request, 'continue');
    const stopped = Promise.all([server.shutdown(), server.shutdown()]);
    request.end(body);
    const [response] = await once(request, 'response');
    expect(response.statusCode).toBe(200);
    response.resume();
    await stopped;
    await expect(fetch(`${server.url}/healthz`)).rejects.toThrow('fetch failed');
    const stored = await stack.db
      .selectFrom('webhook_events')
      .select('event_id')
      .where('event_id', '=', 'evt_under_way')
      .execute();
    expect(stored).toHaveLength(1);
  });

  it('refuse to serve a database that is bound to another account or mode', async () => {
    const apiKey = new Secret('sk_test_somebody_else');
    const stripe = { apiKey, apiBase: stack.simulator.url, timeoutMs: 5_000 };
    await expect(addServer({ stripe })).rejects.toThrow(EnvironmentMismatch);
    await expect(addServer({ mode: 'live' })).rejects.toThrow(EnvironmentMismatch);
  });

  it('I15: leave no secret in the log', () => {
    const text = JSON.stringify(kept.lines);
    expect(text.length).toBeGreaterThan(10);
    expect(text).not.toMatch(/whsec_|sk_test_/);
  });
});
