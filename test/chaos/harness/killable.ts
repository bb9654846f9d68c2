import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { Part } from '../../../src/embedded/part.ts';
import type { PartSpec } from '../../../src/embedded/part-spec.ts';

/** A real process that is killed, frozen and started again on the same ports and files. */
export class Killable {
  readonly #spec: PartSpec;
  readonly #folder: string;
  #part: Part | undefined;
  #pid: number | undefined;

  constructor(spec: PartSpec, folder: string) {
    // Started again by who killed it, so that the time without it is known.
    this.#spec = { ...spec, restart: false };
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
  }

  get log(): string {
    return path.join(this.#folder, `${this.#spec.name}.log`);
  }

  /** 0 when it does not run. */
  get pid(): number {
    return this.#part?.status().pid ?? 0;
  }

  get running(): boolean {
    return this.pid !== 0;
  }

  /** Starts it and waits until it can be used. */
  async start(): Promise<void> {
    const part = new Part(this.#spec, {
      log: this.log,
      recordsFolder: this.#folder,
      order: 0,
      onEvent: () => {},
    });
    this.#part = part;
    await part.start();
    this.#pid = part.status().pid;
  }

  signal(signal: NodeJS.Signals): void {
    const { pid } = this;
    if (pid !== 0) process.kill(pid, signal);
  }

  /** Ends it by this signal and waits until it is gone; one that does not go is killed. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const part = this.#part;
    if (part === undefined) return;
    if (this.#pid !== undefined) this.signal(signal);
    // A process that is stopped takes no other signal than this pair.
    if (signal !== 'SIGKILL') this.signal('SIGCONT');
    await part.stop();
    this.#pid = undefined;
  }
}
