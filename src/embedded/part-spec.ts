/** How a part shows that it can be used. */
export type Readiness =
  | { readonly kind: 'http'; readonly url: string; readonly timeoutMs?: number }
  /** Accepts connections on this port; without it, on the one that was chosen for the part. */
  | { readonly kind: 'tcp'; readonly port?: number; readonly timeoutMs?: number }
  | { readonly kind: 'stdout-line'; readonly pattern: string; readonly timeoutMs?: number }
  | { readonly kind: 'postgres'; readonly url: string; readonly timeoutMs?: number }
  | {
      readonly kind: 'command';
      readonly command: string;
      readonly args: readonly string[];
      readonly timeoutMs?: number;
    };

/** A child process that the supervisor holds, as data. */
export interface PartSpec {
  readonly name: string;
  /** As it stands in messages: "PostgreSQL". */
  readonly label: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Only for PostgreSQL, which refuses to run as root. */
  readonly runAs?: UserIds;
  readonly ready: Readiness;
  /** Of 127.0.0.1, on which it listens once it is ready. */
  readonly ports: readonly number[];
  /** Whether to start it again when it ends by itself or is killed. */
  readonly restart: boolean;
  readonly stopSignal: NodeJS.Signals;
  readonly stopTimeoutMs: number;
  /** How often the first start is tried. More than once only where a killed forerunner may be in the way. */
  readonly startAttempts: number;
}

export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

/** What a command asks the stack for. A part is shared by all who ask for the same. */
export type PartRequest = PostgresRequest | TemporalRequest | ProcessRequest;

interface PostgresRequest {
  readonly kind: 'postgres';
  /** Only when the user demanded this port. */
  readonly port?: number;
}

export interface TemporalRequest {
  readonly kind: 'temporal';
  /** Path of the `temporal` CLI; leaseStack locates or fetches it when it is not given. */
  readonly executable?: string;
  readonly port?: number;
  readonly uiPort?: number;
  /**
   * `normal` survives kill -9 of the server, `full` also a power cut; `memory` forgets all when it ends.
   * Default: `normal`.
   */
  readonly storage?: 'normal' | 'full' | 'memory';
}

/**
 * Any other child process (simulator, vault, worker). In `args`, the values of `env`, `url` and `ready`, the text
 * `{{port}}` stands for the port that was chosen, `{{secondPort}}` for the second one. Ask for parts it needs first, and put their endpoints into `env`.
 */
export interface ProcessRequest {
  readonly kind: 'process';
  readonly name: string;
  readonly label?: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Demanded by the user. */
  readonly port?: number;
  /** Taken when free; with neither port nor preferredPort the part listens nowhere. */
  readonly preferredPort?: number;
  /** Of a part that listens twice. */
  readonly second?: SecondPort;
  /**
   * Name of a part that is asked for together with this one, or before it, and that this one calls: `{{its.port}}` and
   * `{{its.secondPort}}` stand for its ports. Both start side by side; it is stopped after this one.
   */
  readonly calls?: string;
  readonly url?: string;
  readonly ready: Readiness;
  /** Default: true. */
  readonly restart?: boolean;
  /** Default: SIGTERM. */
  readonly stopSignal?: NodeJS.Signals;
  /** Default: 15 s; SIGKILL after that. */
  readonly stopTimeoutMs?: number;
}

interface SecondPort {
  /** What it is for, as it stands in messages: "the vault's admin API". */
  readonly label: string;
  /** Demanded by the user. */
  readonly port?: number;
  readonly preferredPort: number;
}

export type PartState = 'starting' | 'running' | 'restarting' | 'failed' | 'stopping' | 'stopped';

export interface PartStatus {
  readonly name: string;
  readonly state: PartState;
  readonly pid?: number;
  /** How often it was started again after it had ended by itself. */
  readonly restarts: number;
  readonly port?: number;
  readonly url?: string;
  readonly log: string;
  /** Why it failed, with the last lines of its log. */
  readonly error?: string;
}

export interface StackEndpoints {
  readonly databaseUrl?: string;
  readonly temporalAddress?: string;
  readonly temporalUiUrl?: string;
  readonly temporalMetricsUrl?: string;
  readonly simulatorUrl?: string;
  readonly serverUrl?: string;
  readonly vaultUrl?: string;
  readonly vaultAdminUrl?: string;
}

/** The name under which the part of a request runs. */
export function partName(request: PartRequest): string {
  return request.kind === 'process' ? request.name : request.kind;
}
