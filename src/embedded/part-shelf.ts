import path from 'node:path';
import type { HomeLayout } from './home.ts';
import { differences } from './part-conflict.ts';
import { planPart, type PlannedPart } from './part-factory.ts';
import { partName, type PartRequest, type PartStatus, type StackEndpoints } from './part-spec.ts';
import { createPart, type Part } from './part.ts';
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
  readonly request: PartRequest;
  readonly order: number;
  readonly holders: Set<Holder>;
  readonly label: string;
  started: Promise<void>;
  plan?: PlannedPart;
  part?: Part;
  stopping?: Promise<void>;
}

/** The running parts of one home, each kept as long as somebody holds it. */
export interface PartShelf {
  /** Starts or shares parts for a holder; throws when one cannot be had. Twice for the same part is once. */
  hold(holder: Holder, requests: readonly PartRequest[]): Promise<void>;
  /** Gives up all that this holder has; what nobody holds any more is stopped, latest first. */
  drop(holder: Holder): Promise<void>;
  status(): PartStatus[];
  endpoints(holder: Holder): StackEndpoints;
}

/** Makes an empty shelf for a home. */
export function createPartShelf(context: {
  readonly layout: HomeLayout;
  readonly env: Readonly<Record<string, string>>;
}): PartShelf {
  const entries = new Map<string, Entry>();
  let calls = 0;

  async function start(entry: Entry, name: string): Promise<void> {
    const onProgress = (message: string) => {
      for (const holder of entry.holders) holder.progress(message);
    };
    onProgress(`starting ${entry.label}`);
    for (let attempt = 1; ; attempt += 1) {
      const plan = await planPart(entry.request, { ...context, onProgress });
      if (entry.stopping !== undefined)
        throw new Error(`${entry.label} was stopped while it started`);
      const part = createPart(plan.spec, {
        log: path.join(context.layout.logs, `${name}.log`),
        recordsFolder: context.layout.parts,
        order: entry.order,
        onEvent: ({ kind, message }) => {
          for (const holder of entry.holders) holder.partEvent(kind, name, message);
        },
      });
      entry.plan = plan;
      entry.part = part;
      try {
        await part.start();
        await plan.afterStart?.();
        return;
      } catch (error) {
        await part.stop();
        const free = await Promise.all(plan.movablePorts.map(isPortFree));
        if (entry.stopping !== undefined || attempt >= PORT_ATTEMPTS || !free.includes(false))
          throw error;
      }
    }
  }

  function shareable(name: string, request: PartRequest): Entry | undefined {
    const entry = entries.get(name);
    if (entry === undefined) return undefined;
    const different = differences(entry.request, request, entry.plan?.port);
    if (different.length === 0) return entry;
    const pid = entry.part?.status().pid;
    const commands = [...entry.holders].map((holder) => holder.pid()).join(', ');
    throw new Error(
      `${entry.label} already runs (process ${pid ?? '?'}) for the home ${context.layout.home} with other settings ` +
        `(${different.join(', ')}). Use the same settings, wait for or stop the command that uses it ` +
        `(process ${commands}), or choose another home by CHARGEONCE_HOME`,
    );
  }

  async function holdOne(holder: Holder, request: PartRequest, order: number): Promise<void> {
    const name = partName(request);
    for (;;) {
      const known = entries.get(name);
      if (known === undefined) break;
      if (known.stopping === undefined && known.part?.status().state === 'failed') {
        await stopEntry(name, known);
      } else if (known.stopping === undefined) break;
      else await known.stopping;
    }
    const shared = shareable(name, request);
    if (shared !== undefined) {
      shared.holders.add(holder);
      await shared.started;
      return;
    }
    const label = { postgres: 'PostgreSQL', temporal: 'the Temporal server', process: '' }[
      request.kind
    ];
    const named = request.kind === 'process' ? (request.label ?? `the ${name}`) : label;
    const entry: Entry = {
      request,
      order,
      label: named,
      holders: new Set([holder]),
      started: Promise.resolve(),
    };
    entries.set(name, entry);
    entry.started = start(entry, name);
    try {
      await entry.started;
    } catch (error) {
      if (entries.get(name) === entry && entry.stopping === undefined) entries.delete(name);
      throw error;
    }
  }

  function stopEntry(name: string, entry: Entry): Promise<void> {
    entry.stopping ??= (async () => {
      await entry.part?.stop();
      await entry.started.catch(() => undefined);
      // One that was only being planned has become a part meanwhile.
      await entry.part?.stop();
      if (entries.get(name) === entry) entries.delete(name);
    })();
    return entry.stopping;
  }

  return {
    async hold(holder, requests) {
      calls += 1;
      const order = calls;
      const results = await Promise.allSettled(
        requests.map((request) => holdOne(holder, request, order)),
      );
      for (const result of results) if (result.status === 'rejected') throw result.reason;
    },
    async drop(holder) {
      const unheld: [string, Entry][] = [];
      for (const [name, entry] of entries) {
        if (entry.holders.delete(holder) && entry.holders.size === 0) unheld.push([name, entry]);
      }
      // What was asked for together does not build on each other and stops together.
      const orders = [...new Set(unheld.map(([, entry]) => entry.order))].sort((a, b) => b - a);
      for (const order of orders) {
        const group = unheld.filter(
          ([, entry]) => entry.order === order && entry.holders.size === 0,
        );
        await Promise.all(group.map(([name, entry]) => stopEntry(name, entry)));
      }
    },
    status() {
      return [...entries].map(([name, entry]) => statusOf(name, entry, context.layout.logs));
    },
    endpoints(holder) {
      const held = [...entries.values()].filter((entry) => entry.holders.has(holder));
      return Object.assign(
        {},
        ...held.map((entry) => entry.plan?.endpoints ?? {}),
      ) as StackEndpoints;
    },
  };
}

function statusOf(name: string, entry: Entry, logs: string): PartStatus {
  const status = entry.part?.status() ?? {
    name,
    state: 'starting' as const,
    restarts: 0,
    log: path.join(logs, `${name}.log`),
  };
  const { port, url } = entry.plan ?? {};
  return {
    ...status,
    ...(port === undefined ? {} : { port }),
    ...(url === undefined ? {} : { url }),
  };
}
