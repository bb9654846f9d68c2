import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { baseEnv } from '../stack.ts';
import type { Contestant } from './contestants.ts';

const SERVER = fileURLToPath(new URL('server.ts', import.meta.url));
const LOAD = fileURLToPath(new URL('load.ts', import.meta.url));

/** A process of the bench that says in lines of JSON how far it is. */
class Part {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(file: string, args: readonly string[], nodeFlags: readonly string[] = []) {
    this.#child = spawn(process.execPath, [...nodeFlags, file, ...args], {
      env: { ...baseEnv(), NODE_ENV: 'production' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    if (this.#child.stdout === null) throw new Error('no stdout');
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async next<T>(schema: z.ZodType<T>): Promise<T> {
    const line = await this.#lines.next();
    if (line.done === true) throw new Error('a part of the bench ended too early');
    return schema.parse(JSON.parse(line.value));
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill(signal);
    await gone;
  }
}

export interface ServerOptions {
  readonly databaseUrl: string;
  readonly pool: number;
  readonly nodeFlags?: readonly string[];
}

export interface RunningServer {
  readonly url: string;
  readonly pid: number;
  /** how often its handlers ran */
  runs(): Promise<number>;
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

const addressed = z.object({ url: z.string(), pid: z.number() });
const counted = z.object({ runs: z.number() });

export async function startServer(
  { framework, layer }: Contestant,
  { databaseUrl, pool, nodeFlags }: ServerOptions,
): Promise<RunningServer> {
  const args = ['--framework', framework, '--layer', layer, '--database', databaseUrl];
  const part = new Part(SERVER, [...args, '--pool', String(pool)], nodeFlags);
  const { url, pid } = await part.next(addressed);
  return {
    url,
    pid,
    async runs() {
      const answer = await fetch(`${url}/runs`, { headers: { connection: 'close' } });
      return counted.parse(await answer.json()).runs;
    },
    end: (signal) => part.end(signal),
  };
}

const measuring = z.object({ measuring: z.literal(true) });
const seen = z.object({
  /** requests from its start, warm-up included; a few of them when nobody waited for the answer any more */
  sent: z.number(),
  /** answers within the measured time */
  measured: z.number(),
  seconds: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  /** answers beyond 2xx, and broken connections */
  refused: z.number(),
});

export interface LoadOptions {
  /** every known key once, instead of for so long */
  readonly once?: boolean;
  readonly connections: number;
  readonly warmUpS: number;
  readonly seconds: number;
}

/** Sends requests for so long; `atStart` is called between warm-up and measurement. */
export async function runLoad(
  url: string,
  { keys }: Contestant,
  { atStart, ...load }: LoadOptions & { readonly atStart?: () => void },
): Promise<z.infer<typeof seen>> {
  const args = ['--url', url, '--keys', keys, '--connections', String(load.connections)];
  const times = ['--warm-up', String(load.warmUpS), '--seconds', String(load.seconds)];
  const part = new Part(LOAD, [...args, ...times, ...(load.once === true ? ['--once'] : [])]);
  try {
    await part.next(measuring);
    atStart?.();
    return await part.next(seen);
  } finally {
    await part.end('SIGKILL');
  }
}
