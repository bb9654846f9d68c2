import type { PartSpec } from '../../../src/embedded/part-spec.ts';
import { Kept } from './kept.ts';
import { Killable } from './killable.ts';
import { pause } from './luck.ts';

/** What was done to a worker, and when: what recovery is measured by. */
export interface WorkerBlow {
  readonly kind: 'kill' | 'freeze' | 'roll';
  /** as charge_attempts name it */
  readonly worker: string;
  readonly at: Date;
  /** when it was gone, or woke up again */
  until: Date;
}

/** The worker processes and the blows they take. */
export class Workers {
  readonly blows: WorkerBlow[] = [];
  readonly #all: readonly Kept[];
  readonly #kept: Promise<unknown>;
  readonly #stop = new AbortController();

  constructor(specs: readonly PartSpec[], folder: string) {
    this.#all = specs.map((spec) => new Kept(new Killable(spec, folder), this.#stop.signal));
    this.#kept = Promise.all(this.#all.map((worker) => worker.keep()));
  }

  /** Ends that nobody ordered: a worker that lost its servers leaves and is started again. */
  get unasked(): number {
    return this.#all.reduce((sum, { unasked }) => sum + unasked, 0);
  }

  /** How many are up and at work. */
  get ready(): number {
    return this.#all.filter((worker) => worker.ready && !worker.busy).length;
  }

  /** How long a worker takes from its start until it polls, in the middle of all this. */
  get medianStartMs(): number {
    const sorted = this.#all.flatMap(({ startsMs }) => startsMs).toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? 0;
  }

  /** kill -9 of one that nothing else is done to; null when there is none. It is started again at once. */
  kill(index: number): Promise<WorkerBlow | null> {
    const free = this.#all.filter((worker) => worker.ready && !worker.busy);
    return this.#kill(free[index % Math.max(1, free.length)]);
  }

  /** The same for the one of this name. */
  killByName(name: string): Promise<WorkerBlow | null> {
    return this.#kill(this.#all.find((worker) => worker.ready && worker.name() === name));
  }

  async #kill(worker: Kept | undefined): Promise<WorkerBlow | null> {
    if (worker === undefined) return null;
    const blow = this.#blow('kill', worker);
    await worker.end('SIGKILL');
    blow.until = new Date();
    return blow;
  }

  /** Stops one in the middle of whatever it does and lets it go on when others have taken over. */
  async freeze(ms: number, signal: AbortSignal): Promise<boolean> {
    const worker = this.#take();
    if (worker === undefined) return false;
    try {
      const blow = this.#blow('freeze', worker);
      worker.process.signal('SIGSTOP');
      await pause(ms, signal);
      worker.process.signal('SIGCONT');
      blow.until = new Date();
      // It shall act on what it believes before it is killed like the others.
      await pause(AWAKE_MS, signal);
      return true;
    } finally {
      worker.busy = false;
    }
  }

  /** A rolling restart: it finishes its charges, then its successor starts. */
  async roll(): Promise<boolean> {
    const worker = this.#take();
    if (worker === undefined) return false;
    try {
      const blow = this.#blow('roll', worker);
      await worker.end('SIGTERM');
      blow.until = new Date();
      return true;
    } finally {
      worker.busy = false;
    }
  }

  /** All are killed and stay away while the work is done. */
  async without<T>(work: () => Promise<T>): Promise<T> {
    for (const worker of this.#all) worker.hold(true);
    try {
      await Promise.all(
        this.#all.map(async (worker) => {
          const blow = worker.ready ? this.#blow('kill', worker) : null;
          await worker.end('SIGKILL');
          if (blow !== null) blow.until = new Date();
        }),
      );
      return await work();
    } finally {
      for (const worker of this.#all) worker.hold(false);
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#all.map((worker) => worker.end('SIGKILL')));
    await this.#kept;
    // One may have been in the middle of its start.
    await Promise.all(this.#all.map((worker) => worker.end('SIGKILL')));
  }

  pids(): number[] {
    return this.#all.map(({ process }) => process.pid);
  }

  #take(): Kept | undefined {
    const free = this.#all.filter((worker) => worker.ready && !worker.busy);
    // One is left to work.
    const worker = this.#all.some(({ busy }) => busy) ? undefined : free[0];
    if (worker !== undefined) worker.busy = true;
    return worker;
  }

  #blow(kind: WorkerBlow['kind'], worker: Kept): WorkerBlow {
    const at = new Date();
    const blow: WorkerBlow = { kind, worker: worker.name(), at, until: at };
    this.blows.push(blow);
    return blow;
  }
}

const AWAKE_MS = 3_000;
