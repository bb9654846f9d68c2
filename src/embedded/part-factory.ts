import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { HomeLayout } from './home.ts';
import type {
  PartRequest,
  PartSpec,
  ProcessRequest,
  Readiness,
  StackEndpoints,
} from './part-spec.ts';
import { choosePort } from './ports.ts';
import { ensureDatabase, postgresSpec, postgresUrl, preparePostgres } from './postgres.ts';
import { temporalSpec } from './temporal-dev-server.ts';
import { isRecord, parseJson } from './untyped.ts';

/** Away from the usual ports of a PostgreSQL that the machine may have; Temporal's are its documented ones. */
const DEFAULT_PORTS = {
  postgres: 54_329,
  temporal: 7_233,
  temporalUi: 8_233,
  temporalMetrics: 9_233,
  simulator: 12_111,
} as const;

const PROCESS_STOP_TIMEOUT_MS = 15_000;

/** A part that can be started now: its ports are chosen. */
export interface PlannedPart {
  readonly spec: PartSpec;
  readonly endpoints: StackEndpoints;
  readonly port?: number;
  readonly uiPort?: number;
  readonly secondPort?: number;
  readonly url?: string;
  /** Ports that were not demanded: when one is lost to another process before the start, plan again. */
  readonly movablePorts: readonly number[];
  /** What remains to be done once it is ready. */
  readonly afterStart?: () => Promise<void>;
}

export interface PlanContext {
  readonly layout: HomeLayout;
  readonly env: Readonly<Record<string, string>>;
  readonly onProgress: (message: string) => void;
  /** of the part that this one calls */
  readonly its?: Pick<PlannedPart, 'port' | 'secondPort'>;
}

/** Chooses the ports of a part and prepares its files; what was chosen is remembered in the home. */
export async function planPart(request: PartRequest, context: PlanContext): Promise<PlannedPart> {
  switch (request.kind) {
    case 'postgres':
      return await planPostgres(request.port, context);
    case 'temporal':
      return await planTemporal(request, context);
    case 'process':
      return await planProcess(request, context);
    default:
      return request satisfies never;
  }
}

async function planPostgres(port: number | undefined, context: PlanContext): Promise<PlannedPart> {
  const cluster = await preparePostgres({
    folder: context.layout.postgres,
    env: context.env,
    onProgress: context.onProgress,
  });
  const ports = await pickPorts(context, [
    { key: 'postgres', label: 'PostgreSQL', explicit: port, preferred: DEFAULT_PORTS.postgres },
  ]);
  const chosen = ports.get('postgres');
  return {
    spec: postgresSpec(cluster, { port: chosen, env: context.env }),
    endpoints: { databaseUrl: postgresUrl(cluster, chosen) },
    port: chosen,
    movablePorts: port === undefined ? [chosen] : [],
    afterStart: () => ensureDatabase(cluster, chosen),
  };
}

async function planTemporal(
  request: Extract<PartRequest, { kind: 'temporal' }>,
  context: PlanContext,
): Promise<PlannedPart> {
  if (request.executable === undefined) throw new Error('the path of the temporal CLI is missing');
  const ports = await pickPorts(context, [
    {
      key: 'temporal',
      label: 'the Temporal server',
      explicit: request.port,
      preferred: DEFAULT_PORTS.temporal,
    },
    {
      key: 'temporalUi',
      label: 'the Temporal UI',
      explicit: request.uiPort,
      preferred: DEFAULT_PORTS.temporalUi,
    },
    {
      key: 'temporalMetrics',
      label: 'the metrics of Temporal',
      explicit: undefined,
      preferred: DEFAULT_PORTS.temporalMetrics,
    },
  ]);
  const [port, uiPort, metricsPort] = [
    ports.get('temporal'),
    ports.get('temporalUi'),
    ports.get('temporalMetrics'),
  ];
  return {
    spec: temporalSpec({
      executable: request.executable,
      port,
      uiPort,
      metricsPort,
      file: path.join(context.layout.temporal, 'temporal.db'),
      storage: request.storage ?? 'normal',
      env: context.env,
    }),
    endpoints: {
      temporalAddress: `127.0.0.1:${port}`,
      temporalUiUrl: `http://127.0.0.1:${uiPort}`,
      temporalMetricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
    },
    port,
    uiPort,
    url: `http://127.0.0.1:${uiPort}`,
    movablePorts: [
      ...(request.port === undefined ? [port] : []),
      ...(request.uiPort === undefined ? [uiPort] : []),
      metricsPort,
    ],
  };
}

async function planProcess(request: ProcessRequest, context: PlanContext): Promise<PlannedPart> {
  const label = request.label ?? `the ${request.name}`;
  const { port, secondPort } = await processPorts(request, label, context);
  const { its } = context;
  const fill = filler({
    port,
    secondPort,
    'its.port': its?.port,
    'its.secondPort': its?.secondPort,
  });
  const env: Record<string, string> = { ...context.env };
  for (const [key, value] of Object.entries(request.env)) env[key] = fill(value);
  const url = request.url === undefined ? undefined : fill(request.url);
  const movable = [
    request.port === undefined ? port : undefined,
    request.second?.port === undefined ? secondPort : undefined,
  ];
  return {
    spec: {
      name: request.name,
      label,
      command: request.command,
      args: request.args.map(fill),
      env,
      ...(request.cwd === undefined ? {} : { cwd: request.cwd }),
      ready: filledReadiness(request.ready, fill, port),
      ports: [port, secondPort].filter((one) => one !== undefined),
      restart: request.restart ?? true,
      stopSignal: request.stopSignal ?? 'SIGTERM',
      stopTimeoutMs: request.stopTimeoutMs ?? PROCESS_STOP_TIMEOUT_MS,
      startAttempts: 1,
    },
    endpoints: endpointsOf(request.name, url, secondPort),
    ...(port === undefined ? {} : { port }),
    ...(secondPort === undefined ? {} : { secondPort }),
    ...(url === undefined ? {} : { url }),
    movablePorts: movable.filter((one) => one !== undefined),
  };
}

/** Replaces `{{name}}` by its port; what has none is left as it stands. */
function filler(ports: Readonly<Record<string, number | undefined>>): (text: string) => string {
  return (text) =>
    text.replaceAll(/\{\{([\w.]+)\}\}/g, (whole, name: string) => String(ports[name] ?? whole));
}

async function processPorts(
  request: ProcessRequest,
  label: string,
  context: PlanContext,
): Promise<{ readonly port?: number; readonly secondPort?: number }> {
  const { name, port, preferredPort, second } = request;
  if (port === undefined && preferredPort === undefined) return {};
  const first = { key: name, label, explicit: port, preferred: preferredPort };
  if (second === undefined) {
    const ports = await pickPorts(context, [first]);
    return { port: ports.get(name) };
  }
  const key = `${name}Second`;
  const ports = await pickPorts(context, [
    first,
    { key, label: second.label, explicit: second.port, preferred: second.preferredPort },
  ]);
  return { port: ports.get(name), secondPort: ports.get(key) };
}

function endpointsOf(
  name: string,
  url: string | undefined,
  secondPort: number | undefined,
): StackEndpoints {
  if (url === undefined) return {};
  if (name === 'simulator') return { simulatorUrl: url };
  if (name === 'vault' && secondPort !== undefined)
    return { vaultUrl: url, vaultAdminUrl: `http://127.0.0.1:${secondPort}` };
  return name === 'server' ? { serverUrl: url } : {};
}

function filledReadiness(
  ready: Readiness,
  fill: (text: string) => string,
  port: number | undefined,
): Readiness {
  switch (ready.kind) {
    case 'http':
    case 'postgres':
      return { ...ready, url: fill(ready.url) };
    case 'tcp':
      return port === undefined ? ready : { ...ready, port };
    case 'stdout-line':
      return { ...ready, pattern: fill(ready.pattern) };
    case 'command':
      return { ...ready, args: ready.args.map(fill) };
    default:
      return ready satisfies never;
  }
}

interface NamedWish {
  readonly key: string;
  readonly label: string;
  readonly explicit: number | undefined;
  readonly preferred: number | undefined;
}

async function pickPorts(
  context: PlanContext,
  wishes: readonly NamedWish[],
): Promise<{ get(key: string): number }> {
  const known = await rememberedPorts(context.layout.ports);
  const chosen = new Map<string, number>();
  for (const { key, label, explicit, preferred } of wishes) {
    const taken = [...chosen.values()];
    const wanted: number[] = [];
    for (const port of [known[key], preferred]) {
      if (port !== undefined && !taken.includes(port)) wanted.push(port);
    }
    const port = await choosePort({ label, explicit, preferred: wanted });
    if (wanted[0] !== undefined && explicit === undefined && port !== wanted[0]) {
      context.onProgress(`port ${wanted[0]} is taken: ${label} listens on ${port}`);
    }
    chosen.set(key, port);
  }
  await rememberPorts(context.layout.ports, chosen);
  return {
    get(key) {
      const port = chosen.get(key);
      if (port === undefined) throw new Error(`no port was chosen for ${key}`);
      return port;
    },
  };
}

async function rememberedPorts(file: string): Promise<Readonly<Record<string, number>>> {
  const value = parseJson(await readFile(file, 'utf8').catch(() => ''));
  const ports: Record<string, number> = {};
  for (const [key, port] of Object.entries(isRecord(value) ? value : {})) {
    if (typeof port === 'number') ports[key] = port;
  }
  return ports;
}

/** One supervisor per home, but it starts parts side by side: each write reads again what the others wrote. */
let writing: Promise<void> = Promise.resolve();

async function rememberPorts(file: string, chosen: ReadonlyMap<string, number>): Promise<void> {
  const before = writing;
  writing = (async () => {
    await before;
    const all = { ...(await rememberedPorts(file)), ...Object.fromEntries(chosen) };
    await writeFile(file, `${JSON.stringify(all, undefined, 2)}\n`);
  })();
  await writing;
}
