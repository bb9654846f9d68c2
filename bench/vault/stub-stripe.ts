import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface StubStripe {
  readonly url: string;
  /** milliseconds until each answer */
  latencyMs: number;
  /** POSTs that came */
  posts: number;
  close(): Promise<void>;
}

/**
 * A Stripe that costs next to nothing: it creates and confirms whatever it is told, after a pause. The simulator is
 * faithful and does too much for a measurement of what stands in front of it.
 */
export async function startStubStripe(): Promise<StubStripe> {
  const intents = new Map<string, { amount: number; currency: string }>();
  let made = 0;
  const stub = { latencyMs: 0, posts: 0 };
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      void answer(request, Buffer.concat(chunks).toString(), response);
    });
  });
  async function answer(
    request: http.IncomingMessage,
    body: string,
    response: http.ServerResponse,
  ): Promise<void> {
    const path = request.url ?? '';
    if (request.method === 'POST') stub.posts += 1;
    if (stub.latencyMs > 0) await sleep(stub.latencyMs);
    const reply = JSON.stringify(replyTo(path, body));
    response.writeHead(200, {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(reply),
      'Request-Id': `req_${stub.posts}`,
    });
    response.end(reply);
  }
  function replyTo(path: string, body: string): object {
    if (path === '/v1/account') return { id: 'acct_bench', object: 'account' };
    const confirmed = /^\/v1\/payment_intents\/(pi_\w+)\/confirm$/.exec(path)?.[1];
    if (confirmed !== undefined) {
      const intent = intents.get(confirmed);
      intents.delete(confirmed);
      return {
        ...describe(confirmed, intent),
        status: 'succeeded',
        latest_charge: `ch_${confirmed}`,
      };
    }
    const form = new URLSearchParams(body);
    made += 1;
    const id = `pi_${made}`;
    const intent = { amount: Number(form.get('amount')), currency: form.get('currency') ?? '' };
    intents.set(id, intent);
    return {
      ...describe(id, intent),
      customer: form.get('customer'),
      status: 'requires_confirmation',
      latest_charge: null,
    };
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server's address
  const { port } = server.address() as AddressInfo;
  return Object.assign(stub, {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  });
}

function describe(id: string, intent: { amount: number; currency: string } | undefined): object {
  return {
    id,
    object: 'payment_intent',
    amount: intent?.amount ?? 0,
    currency: intent?.currency ?? 'usd',
    created: Math.floor(Date.now() / 1000),
    livemode: false,
    metadata: {},
  };
}
