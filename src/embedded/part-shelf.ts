import path from 'node:path';
import type { HomeLayout } from './home.ts';
import { differences } from './part-conflict.ts';
import { planPart, type PlannedPart } from './part-factory.ts';
import { partName, type PartRequest, type PartStatus, type StackEndpoints } from './part-spec.ts';
import { Part } from './part.ts';
import { isPortFree } from './ports.ts';

/** Another process can win a port between our look and our start; thrice in a row it is no coincidence. */
const PORT_ATTEMPTS = 3;

/** Who holds parts: one connected command. */
export interface Holder {
  readonly pid: () => number;
  readonly progress: (message: string) => void;
  readonly partEvent: (event: 'restarted' | 'failed', name: string, message: string) => void;
}

interface Entry {
  readonly name: string;
  readonly request: PartRequest;
  readonly order: number;
  readonly holders: Set<Holder>;
  readonly label: string;
  started: Promise<void>;
  /** settles when its ports are chosen for the first time */
  readonly planned: PromiseWithResolvers<PlannedPart>;
  plan?: PlannedPart;
  part?: Part;
  stopping?: Promise<void>;
}

/** The running parts of one home, each kept as long as somebody holds it. */
export class PartShelf {
  readonly #layout: HomeLayout;
  readonly #env: Readonly<Record<string, string>>;
  readonly #entries = new Map<string, Entry>();
  #calls = 0;

  constructor(layout: HomeLayout, env: Readonly<Record<string, string>>) {
    this.#layout = layout;
    this.#env = env;
  }

  /** Starts or shares parts for a holder; throws when one cannot be had. Twice for the same part is once. */
  async hold(holder: Holder, requests: readonly PartRequest[]): Promise<void> {
    const order = this.#calls + 1;
    // Whoever calls another part is stopped before it.
    const orderOf = (request: PartRequest) => (calledBy(request) === undefined ? order : order + 1);
    this.#calls = order + 1;
    const results = await Promise.allSettled(
      requests.map((request) => this.#holdOne(holder, request, orderOf(request))),
    );
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  /** Gives up all that this holder has; what nobody holds any more is stopped, latest first. */
  async drop(holder: Holder): Promise<void> {
    const unheld: Entry[] = [];
    for (const entry of this.#entries.values()) {
      if (entry.holders.delete(holder) && entry.holders.size === 0) unheld.push(entry);
    }
    // What was asked for together does not build on each other and stops together.
    const orders = [...new Set(unheld.map((entry) => entry.order))].sort((a, b) => b - a);
    for (const order of orders) {
      const group = unheld.filter((entry) => entry.order === order && entry.holders.size === 0);
      await Promise.all(group.map((entry) => this.#stop(entry)));
    }
  }

  status(): PartStatus[] {
    return [...this.#entries.values()].map((entry) => statusOf(entry, this.#logOf(entry.name)));
  }

  endpoints(holder: Holder): StackEndpoints {
    let endpoints: StackEndpoints = {};
    for (const entry of this.#entries.values()) {
      if (entry.holders.has(holder)) endpoints = { ...endpoints, ...entry.plan?.endpoints };
    }
    return endpoints;
  }

  async #holdOne(holder: Holder, request: PartRequest, order: number): Promise<void> {
    const name = partName(request);
    const holders = new Set([holder]);
    for (let known = this.#entries.get(name); known; known = this.#entries.get(name)) {
      if (known.stopping === undefined && known.part?.status().state !== 'failed') {
        this.#refuseOther(known, request);
        known.holders.add(holder);
        await known.started;
        return;
      }
      // Given up: whoever held it holds the one that takes its place.
      if (known.stopping === undefined) for (const other of known.holders) holders.add(other);
      await this.#stop(known);
    }
    const entry: Entry = {
      name,
      label: partLabel(request),
      request,
      order,
      holders,
      started: Promise.resolve(),
      planned: Promise.withResolvers(),
    };
    entry.planned.promise.catch(() => undefined);
    this.#entries.set(name, entry);
    entry.started = this.#start(entry);
    try {
      await entry.started;
    } catch (error) {
      entry.planned.reject(error);
      if (this.#entries.get(name) === entry && entry.stopping === undefined) {
        this.#entries.delete(name);
      }
      throw error;
    }
  }

  #refuseOther(entry: Entry, request: PartRequest): void {
    const different = differences(entry.request, request, entry.plan);
    if (different.length === 0) return;
    const pid = entry.part?.status().pid ?? 'being started';
    const commands = [...entry.holders].map((holder) => holder.pid()).join(', ');
    throw new Error(
      `${entry.label} already runs (process ${pid}) for the home ${this.#layout.home} with other settings ` +
        `(${different.join(', ')}). Use the same settings, wait for or stop the command that uses it ` +
        `(process ${commands}), or choose another home by CHARGEONCE_HOME`,
    );
  }

  async #start(entry: Entry): Promise<void> {
    const onProgress = (message: string) => {
      for (const holder of entry.holders) holder.progress(message);
    };
    onProgress(`starting ${entry.label}`);
    const called = calledBy(entry.request);
    for (let attempt = 1; ; attempt += 1) {
      const its = called === undefined ? {} : { its: await this.#plannedPart(called) };
      const context = { layout: this.#layout, env: this.#env, onProgress, ...its };
      const plan = await planPart(entry.request, context);
      if (entry.stopping !== undefined)
        throw new Error(`${entry.label} was stopped while it started`);
      const part = new Part(plan.spec, {
        log: this.#logOf(entry.name),
        recordsFolder: this.#layout.parts,
        order: entry.order,
        onEvent: ({ kind, message }) => {
          for (const holder of entry.holders) holder.partEvent(kind, entry.name, message);
        },
      });
      entry.plan = plan;
      entry.planned.resolve(plan);
      entry.part = part;
      try {
        await part.start();
        await plan.afterStart?.();
        return;
      } catch (error) {
        await part.stop();
        const free = await Promise.all(plan.movablePorts.map(isPortFree));
        const portLost = free.includes(false) && attempt < PORT_ATTEMPTS;
        if (wasStopped(entry) || !portLost) throw error;
      }
    }
  }

  /** The part of this name once its ports are chosen, whether it is ready or not. */
  async #plannedPart(name: string): Promise<PlannedPart> {
    for (;;) {
      const entry = this.#entries.get(name);
      if (entry === undefined)
        throw new Error(`${name} is called by another part and was not asked for`);
      if (entry.stopping === undefined) return entry.plan ?? (await entry.planned.promise);
      // Who asked for it waits for the same end, and puts another in its place.
      await entry.stopping;
    }
  }

  #stop(entry: Entry): Promise<void> {
    entry.stopping ??= this.#stopOnce(entry);
    return entry.stopping;
  }

  async #stopOnce(entry: Entry): Promise<void> {
    await entry.part?.stop();
    await entry.started.catch(() => undefined);
    // One that was only being planned has become a part meanwhile.
    await entry.part?.stop();
    if (this.#entries.get(entry.name) === entry) this.#entries.delete(entry.name);
  }

  #logOf(name: string): string {
    return path.join(this.#layout.logs, `${name}.log`);
  }
}

function calledBy(request: PartRequest): string | undefined {
  return request.kind === 'process' ? request.calls : undefined;
}

function wasStopped(entry: Entry): boolean {
  return entry.stopping !== undefined;
}

function partLabel(request: PartRequest): string {
  switch (request.kind) {
    case 'postgres':
      return 'PostgreSQL';
    case 'temporal':
      return 'the Temporal server';
    case 'process':
      return request.label ?? `the ${request.name}`;
    default:
      return request satisfies never;
  }
}

function statusOf(entry: Entry, log: string): PartStatus {
  const { name, part, plan } = entry;
  const status = part?.status() ?? { name, state: 'starting' as const, restarts: 0, log };
  const { port, url } = plan ?? {};
  return {
    ...status,
    ...(port === undefined ? {} : { port }),
    ...(url === undefined ? {} : { url }),
  };
}
