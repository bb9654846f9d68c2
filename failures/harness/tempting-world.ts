import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Simulator } from '../../src/simulator/index.ts';
import type { Shop } from './exhibit.ts';
import { startWireServer, type WireScript, type WireServer } from './wire-server.ts';

/** What a careless program finds: Stripe, its customers, a network that misbehaves, and a database if it wants one. */
export interface TemptingWorld extends Shop {
  readonly stripe: Simulator;
  /** A network in front of Stripe that does what the script says with each request. Replicas then go through it. */
  wire(script: WireScript): Promise<WireServer>;
  /** The address of an empty PostgreSQL database. */
  database(): Promise<string>;
  /**
   * Runs a file in so many processes of its own, all at once, and waits for their end. Each is ready when it sends
   * 'ready', and begins at 'go'. They get the shop as SHOP, in JSON, and what else is given. Answers their exit codes.
   */
  replicas(file: URL, count: number, env?: Readonly<Record<string, string>>): Promise<number[]>;
}

/** What the world is made of; `undo` ends what the code has left behind. */
export interface TemptingParts {
  readonly shop: Shop;
  readonly stripe: Simulator;
  readonly newDatabase: () => Promise<string>;
  readonly undo: (() => Promise<void>)[];
}

/** Longest that a process of an exhibit may run; then it is killed, and the exhibit fails. */
const REPLICA_TIMEOUT_MS = 20_000;

export function temptingWorld({ shop, stripe, newDatabase, undo }: TemptingParts): TemptingWorld {
  let { stripeUrl } = shop;
  return {
    ...shop,
    stripe,
    async wire(script) {
      const server = await startWireServer(script, shop.stripeUrl);
      undo.push(() => server.close());
      stripeUrl = server.url;
      return server;
    },
    database: newDatabase,
    replicas: (file, count, env = {}) =>
      runReplicas({ file, count, shop: { ...shop, stripeUrl }, env }),
  };
}

/** Runs a file in so many processes at once, as `TemptingWorld.replicas` says. */
export async function runReplicas(of: {
  readonly file: URL;
  readonly count: number;
  readonly shop: Shop;
  readonly env: Readonly<Record<string, string>>;
}): Promise<number[]> {
  // Three processes that each compile the same libraries take seconds.
  const cache = process.env['NODE_COMPILE_CACHE'];
  const base = { PATH: '', ...(cache === undefined ? {} : { NODE_COMPILE_CACHE: cache }) };
  const children = Array.from({ length: of.count }, (_, replica) =>
    fork(fileURLToPath(of.file), [], {
      env: { ...base, ...of.env, SHOP: JSON.stringify(of.shop), REPLICA: String(replica) },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    }),
  );
  const end = (): void => {
    for (const child of children) child.kill('SIGKILL');
  };
  const timer = setTimeout(end, REPLICA_TIMEOUT_MS);
  // Whoever interrupts the gallery does not wait for them.
  process.once('exit', end);
  try {
    const ended = children.map(async (child) => {
      const [code]: readonly unknown[] = await once(child, 'exit');
      return typeof code === 'number' ? code : 1;
    });
    // One that ends before it is ready has failed, and has said why.
    await Promise.race([
      Promise.all(children.map((child) => once(child, 'message'))),
      Promise.all(ended),
    ]);
    for (const child of children) if (child.connected) child.send('go');
    return await Promise.all(ended);
  } finally {
    clearTimeout(timer);
    process.off('exit', end);
    end();
  }
}

/** In a replica: the shop that it was given, once all replicas are ready. */
export async function shopOfReplica(env: NodeJS.ProcessEnv): Promise<Shop> {
  process.send?.('ready');
  await once(process, 'message');
  process.disconnect();
  // Written by `runReplicas`.
  const shop: Shop = JSON.parse(env['SHOP'] ?? '');
  return shop;
}
