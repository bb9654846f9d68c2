// One execution of an activity: what may be killed, frozen and woken, port call by port call.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { VirtualTime } from './virtual-time.ts';

/** Where in its life a fault strikes: before or after the n-th call to the database or to Stripe takes effect. */
export interface Strike {
  readonly kind: 'killed' | 'frozen';
  readonly call: number;
  readonly when: 'before' | 'after';
  readonly forMs: number;
}

/** One execution of an activity in one worker. */
export class Fiber {
  readonly id: string;
  readonly customer: string;
  readonly worker: number;
  readonly attempt: number;
  readonly strike: Strike | null;
  calls = 0;
  alive = true;
  ended = false;
  wokeUp = false;
  frozenUntilMs = 0;
  /** called when it stops beating: killed or frozen */
  readonly whenSilent: (() => void)[] = [];

  constructor(about: {
    id: string;
    customer: string;
    worker: number;
    attempt: number;
    strike: Strike | null;
  }) {
    this.id = about.id;
    this.customer = about.customer;
    this.worker = about.worker;
    this.attempt = about.attempt;
    this.strike = about.strike;
  }

  kill(): void {
    if (!this.alive || this.ended) return;
    this.alive = false;
    for (const tell of this.whenSilent) tell();
  }

  freeze(untilMs: number): void {
    if (!this.alive || this.ended) return;
    this.frozenUntilMs = Math.max(this.frozenUntilMs, untilMs);
    for (const tell of this.whenSilent) tell();
  }

  /** Lets it go on when it is alive and awake; a killed one never goes on. */
  async gate(time: VirtualTime): Promise<void> {
    for (;;) {
      if (!this.alive) await new Promise<never>(() => {});
      if (time.nowMs >= this.frozenUntilMs) return;
      await time.sleep(this.frozenUntilMs - time.nowMs);
      this.wokeUp = true;
    }
  }
}

const running = new AsyncLocalStorage<Fiber>();

/** The execution that is calling. */
export function thisFiber(): Fiber {
  const fiber = running.getStore();
  if (fiber === undefined) throw new Error('a port was called outside of an activity');
  return fiber;
}

export function runInFiber<T>(fiber: Fiber, work: () => Promise<T>): Promise<T> {
  return running.run(fiber, work);
}
