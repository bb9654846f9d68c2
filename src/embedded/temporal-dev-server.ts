import type { PartSpec, TemporalRequest } from './part-spec.ts';

/** Saves what is in flight and closes its file; after that it may be killed. */
const STOP_TIMEOUT_MS = 15_000;

/** What our workflows need of any Temporal server: they are listed by these. */
export const SEARCH_ATTRIBUTES = ['BillingPeriod', 'BillingNamespace', 'BillingOutcome'] as const;

/** Flags after `temporal server start-dev` that do not depend on ports and files. */
export function devServerFlags(): string[] {
  // One partition: on one machine more of them only add hops between matching and its pollers.
  const partitions = ['Read', 'Write'].flatMap((way) => [
    '--dynamic-config-value',
    `matching.numTaskqueue${way}Partitions=1`,
  ]);
  const attributes = SEARCH_ATTRIBUTES.flatMap((name) => ['--search-attribute', `${name}=Keyword`]);
  return [...partitions, ...attributes];
}

export interface TemporalPlace {
  readonly executable: string;
  readonly port: number;
  readonly uiPort: number;
  readonly metricsPort: number;
  /** The SQLite file; not used when the storage is memory. */
  readonly file: string;
  readonly storage: NonNullable<TemporalRequest['storage']>;
  readonly env: Readonly<Record<string, string>>;
}

/** The Temporal dev server as a part of the stack. Started again on the same file, it goes on where it was. */
export function temporalSpec(place: TemporalPlace): PartSpec {
  const address = `127.0.0.1:${place.port}`;
  return {
    name: 'temporal',
    label: 'the Temporal server',
    command: place.executable,
    args: [
      'server',
      'start-dev',
      // It has no login: this machine only.
      '--ip',
      '127.0.0.1',
      '--port',
      String(place.port),
      '--ui-port',
      String(place.uiPort),
      '--metrics-port',
      String(place.metricsPort),
      '--ui-disable-news-fetch',
      '--log-level',
      'error',
      ...storageFlags(place),
      ...devServerFlags(),
    ],
    // Its heap is small and its allocation rate high: a lazier collector gives the CPU back to the run.
    env: { ...place.env, GOGC: '400' },
    // Lists executions, because that answers only once frontend, namespace and visibility all do.
    ready: {
      kind: 'command',
      command: place.executable,
      args: [
        'workflow',
        'list',
        '--limit',
        '1',
        '--output',
        'json',
        '--address',
        address,
        '--namespace',
        'default',
        '--disable-config-file',
        '--disable-config-env',
      ],
    },
    ports: [place.port, place.uiPort, place.metricsPort],
    restart: true,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: STOP_TIMEOUT_MS,
    startAttempts: 3,
  };
}

function storageFlags(place: TemporalPlace): string[] {
  switch (place.storage) {
    case 'memory':
      return [];
    case 'normal':
    case 'full': {
      const pragmas = ['journal_mode=WAL', `synchronous=${place.storage.toUpperCase()}`];
      return [
        '--db-filename',
        place.file,
        ...pragmas.flatMap((pragma) => ['--sqlite-pragma', pragma]),
      ];
    }
    default:
      return place.storage satisfies never;
  }
}
