import { once } from 'node:events';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';

/** Which request is held, and on which side of Stripe. */
export interface Hold {
  readonly customer: string;
  readonly operation: 'create' | 'confirm';
  readonly side: 'beforeExecution' | 'afterExecution';
}

/** What becomes of a held request, or of the reply to it. */
type Fate = 'deliver' | 'drop';

export interface StripeGate {
  readonly url: string;
  /** The next such request waits; resolves when it does. Once per call. */
  hold(hold: Hold): Promise<void>;
  /** Lets what is held for this customer go on, or loses it. */
  release(customer: string, fate: Fate): void;
  close(): Promise<void>;
}

interface Held {
  readonly hold: Hold;
  readonly arrived: PromiseWithResolvers<void>;
  readonly fate: PromiseWithResolvers<Fate>;
  used: boolean;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/**
 * A proxy in front of the simulator that holds one customer's request before Stripe executes it, or Stripe's reply after
 * that, until the test says what becomes of it. A request goes on when its sender has died meanwhile, as one does that
 * has left a machine.
 */
export async function startStripeGate(upstream: string): Promise<StripeGate> {
  const held: Held[] = [];
  const customerOfIntent = new Map<string, string>();

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = await readAll(req);
    const about = aboutOf(req, body);
    const find = (side: Hold['side']): Held | undefined => {
      const customer = about?.customer ?? customerOfIntent.get(about?.intent ?? '');
      const one = held.find(
        ({ hold, used }) =>
          !used &&
          hold.side === side &&
          hold.operation === about?.operation &&
          hold.customer === customer,
      );
      if (one !== undefined) one.used = true;
      one?.arrived.resolve();
      return one;
    };
    if ((await find('beforeExecution')?.fate.promise) === 'drop') return cut(res);
    const answer = await forward(upstream, req, body);
    if (answer === null) return cut(res);
    if (about?.operation === 'create' && about.customer !== null) {
      const id = /"id":\s*"(pi_\w+)"/.exec(answer.body.toString('utf8'))?.[1];
      if (id !== undefined) customerOfIntent.set(id, about.customer);
    }
    if ((await find('afterExecution')?.fate.promise) === 'drop') return cut(res);
    res.writeHead(answer.status, answer.headers);
    res.end(answer.body);
  }

  const server = createServer({ keepAliveTimeout: 75_000 }, (req, res) => {
    // The sender may be dead: nobody to tell.
    serve(req, res).catch(() => cut(res));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
  return {
    url: `http://127.0.0.1:${address.port}`,
    hold(hold) {
      const one: Held = {
        hold,
        arrived: Promise.withResolvers(),
        fate: Promise.withResolvers(),
        used: false,
      };
      held.push(one);
      return one.arrived.promise;
    },
    release(customer, fate) {
      for (const one of held) if (one.hold.customer === customer) one.fate.resolve(fate);
    },
    async close() {
      for (const one of held) one.fate.resolve('drop');
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Operation, customer (by metadata, in a create) and intent (by path, in a confirm) of a POST. */
function aboutOf(
  req: IncomingMessage,
  body: Buffer,
): { operation: Hold['operation']; customer: string | null; intent: string | null } | null {
  if (req.method !== 'POST') return null;
  const confirmed = /^\/v1\/payment_intents\/(pi_\w+)\/confirm$/.exec(req.url ?? '');
  if (confirmed !== null)
    return { operation: 'confirm', customer: null, intent: confirmed[1] ?? null };
  if (req.url !== '/v1/payment_intents') return null;
  const customer = new URLSearchParams(body.toString('utf8')).get('metadata[chargeonce_customer]');
  return { operation: 'create', customer, intent: null };
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The upstream's answer; null when it broke the connection. */
async function forward(
  upstream: string,
  req: IncomingMessage,
  body: Buffer,
): Promise<Answer | null> {
  const { promise, resolve } = Promise.withResolvers<Answer | null>();
  const out = httpRequest(
    `${upstream}${req.url ?? ''}`,
    { method: req.method, headers: req.headers },
    (answer) => {
      readAll(answer).then(
        (read) => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: read }),
        () => resolve(null),
      );
    },
  );
  out.on('error', () => resolve(null));
  out.end(body);
  return promise;
}

function cut(res: ServerResponse): void {
  res.socket?.resetAndDestroy();
}
