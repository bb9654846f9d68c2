import { randomUUID } from 'node:crypto';
import http from 'node:http';
import type { Contestant } from './contestants.ts';
import { startServer, type RunningServer, type ServerOptions } from './part.ts';

const SENDS = 200;

export interface Together {
  /** of the handler, for 200 sends of one key at once, half of them to each of two processes */
  readonly runs: number;
  /** answers by status */
  readonly answers: Readonly<Record<string, number>>;
  /** of the handler, for the same key after both were killed and one was started again: 0, its answer was kept */
  readonly runsAfterKill: number;
}

/** How often the handler runs for one key. */
export async function sendTogether(
  contestant: Contestant,
  options: ServerOptions,
): Promise<Together> {
  const servers: RunningServer[] = [];
  const start = async (): Promise<RunningServer> => {
    const server = await startServer(contestant, options);
    servers.push(server);
    return server;
  };
  try {
    const [left, right] = [await start(), await start()];
    const key = randomUUID();
    const sends = Array.from({ length: SENDS }, (_, at) => (at % 2 === 0 ? left : right));
    const statuses = await Promise.all(sends.map(({ url }) => send(url, key)));
    const runs = (await left.runs()) + (await right.runs());
    await Promise.all([left.end('SIGKILL'), right.end('SIGKILL')]);
    const again = await start();
    await send(again.url, key);
    const answers: Record<string, number> = {};
    for (const status of statuses) answers[status] = (answers[status] ?? 0) + 1;
    return { runs, answers, runsAfterKill: await again.runs() };
  } finally {
    await Promise.all(servers.map((server) => server.end('SIGKILL')));
  }
}

async function send(url: string, key: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const request = http.request(
    `${url}/slow`,
    {
      method: 'POST',
      agent: false,
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
    },
    (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode ?? 0));
    },
  );
  request.on('error', reject);
  request.end('{"amount":4200}');
  return promise;
}
