import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { call } from '../support/http-client.ts';
import { testPostgres } from '../support/postgres.ts';

const EXAMPLE = path.join(
  fileURLToPath(new URL('../..', import.meta.url)),
  'examples/idempotent-api.ts',
);

let database: string;
const processes: ChildProcess[] = [];

/** Starts the example on a free port and answers where it listens. */
async function startExample(): Promise<string> {
  const child = spawn(process.execPath, [EXAMPLE, database, '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  processes.push(child);
  const [line]: unknown[] = await once(child.stdout, 'data');
  return String(line).trim();
}

beforeAll(async () => {
  const postgres = await testPostgres();
  database = (await postgres.createDatabase()).url;
});

afterAll(async () => {
  for (const child of processes) {
    child.kill();
    if (child.exitCode === null) await once(child, 'exit');
  }
});

it('the example migrates an empty database, does an order once for two processes, and keeps callers apart', async () => {
  const [one, other] = await Promise.all([startExample(), startExample()]);
  const order = (url: string, key: string | null, more: { item?: string; caller?: string } = {}) =>
    call(`${url}/orders`, {
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${more.caller ?? 'ann'}`,
        ...(key === null ? {} : { 'idempotency-key': key }),
      },
      body: JSON.stringify({ item: more.item ?? 'tea' }),
    });
  const first = await order(one, '"order-1"');
  expect(first).toMatchObject({ status: 201, text: '{"id":"1","item":"tea"}' });
  const repeat = await order(other, 'order-1');
  expect(repeat).toMatchObject({ status: 201, text: first.text });
  expect(repeat.headers).toMatchObject({ 'idempotent-replayed': 'true', location: '/orders/1' });
  expect(await order(other, 'order-1', { item: 'milk' })).toMatchObject({ status: 422 });
  expect(await order(one, null)).toMatchObject({ status: 400 });
  const ofBob = await order(one, 'order-1', { caller: 'bob' });
  expect(ofBob.headers['idempotent-replayed']).toBeUndefined();
  expect(ofBob.status).toBe(201);
});
