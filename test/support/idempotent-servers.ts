import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { migratedDatabase } from './engine.ts';
import { call, type HttpAnswer } from './http-client.ts';
import type { ServerOrder, ServerWord, StopPoint } from './idempotent-server.ts';

const MAIN = fileURLToPath(new URL('idempotent-server.ts', import.meta.url));

export interface SendOptions {
  readonly stopAt?: StopPoint;
  readonly body?: string;
}

/** A server process, and what can be done to it. */
export class ServerProcess {
  readonly #child: ChildProcess;
  readonly #words: ServerWord[] = [];
  readonly #waiting = new Set<{ readonly look: () => void; readonly gone: () => void }>();
  #url = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (word: ServerWord) => {
      this.#words.push(word);
      for (const { look } of this.#waiting) look();
    });
    child.once('exit', () => {
      for (const { gone } of this.#waiting) gone();
    });
  }

  static async start(order: ServerOrder): Promise<ServerProcess> {
    const server = new ServerProcess(fork(MAIN, [JSON.stringify(order)], { execArgv: [] }));
    const word = await server.#word((one) => one.kind === 'listening');
    server.#url = `http://127.0.0.1:${word.kind === 'listening' ? word.port : 0}`;
    return server;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  send(path: string, key: string, { stopAt, body = '{}' }: SendOptions = {}): Promise<HttpAnswer> {
    return call(`${this.#url}${path}`, {
      headers: {
        'content-type': 'application/json',
        'idempotency-key': key,
        ...(stopAt === undefined ? {} : { 'x-stop-at': stopAt }),
      },
      body,
    });
  }

  /** Resolves when the key's request has come to its stop. */
  async stopped(key: string): Promise<void> {
    await this.#word((one) => one.kind === 'stopped' && one.key === key);
  }

  /** Resolves when the key's handler has been told that its key is lost. */
  async aborted(key: string): Promise<void> {
    await this.#word((one) => one.kind === 'aborted' && one.key === key);
  }

  hasAborted(key: string): boolean {
    return this.#words.some((one) => one.kind === 'aborted' && one.key === key);
  }

  /** Lets a request go on that has come to its stop. */
  goOn(key: string): void {
    this.#child.send(key);
  }

  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child.kill('SIGCONT');
  }

  /** kill -9; returns when it is gone. Once more does nothing. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }

  #word(wanted: (word: ServerWord) => boolean): Promise<ServerWord> {
    const { promise, resolve, reject } = Promise.withResolvers<ServerWord>();
    const waiting = {
      look: (): void => {
        const word = this.#words.find(wanted);
        if (word === undefined) return;
        this.#waiting.delete(waiting);
        resolve(word);
      },
      gone: (): void => reject(new Error('the server process is gone')),
    };
    this.#waiting.add(waiting);
    waiting.look();
    return promise;
  }
}

export interface ServerProcesses {
  readonly servers: readonly ServerProcess[];
  readonly pool: Pool;
  /** how often the key's handler ran, and how often it had its effect */
  counts(key: string): Promise<{ readonly runs: number; readonly effects: number }>;
  close(): Promise<void>;
}

/** Server processes on one database, and the tables in which their handlers leave their traces. */
export async function startServers(count: number, leaseMs: number): Promise<ServerProcesses> {
  const databaseUrl = await migratedDatabase();
  const pool = new Pool({ connectionString: databaseUrl });
  pool.on('error', () => {});
  await pool.query('CREATE TABLE runs (name text NOT NULL)');
  await pool.query('CREATE TABLE effects (name text NOT NULL, once text UNIQUE)');
  const servers = await Promise.all(
    Array.from({ length: count }, () => ServerProcess.start({ databaseUrl, leaseMs })),
  );
  return {
    servers,
    pool,
    async counts(key) {
      const { rows } = await pool.query<{ readonly runs: number; readonly effects: number }>(
        `SELECT (SELECT count(*)::int FROM runs WHERE name = $1) AS runs,
           (SELECT count(*)::int FROM effects WHERE name = $1) AS effects`,
        [key],
      );
      return rows[0] ?? { runs: 0, effects: 0 };
    },
    async close() {
      await Promise.all(servers.map((server) => server.kill()));
      await pool.end();
    },
  };
}
