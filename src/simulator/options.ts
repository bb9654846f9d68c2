/** What a fault rule does to one physical request. docs/simulator.md tells what each proves. */
export type FaultKind =
  | 'refuse'
  | 'resetBefore'
  | 'actThenDrop'
  | 'actThen500'
  | 'fail500'
  | 'lateSuccess500'
  | 'status409'
  | 'status429'
  | 'status502'
  | 'status503'
  | 'status504'
  | 'slow'
  | 'truncate'
  | 'wrongContentType'
  | 'declineOnce'
  | 'doubleReply';

/**
 * One rule of the plan. The first rule (in order) that matches a physical request and has its luck fires;
 * a repeat of the same request is a new physical request with new luck.
 */
export interface FaultRule {
  readonly id: string;
  /** `payment_intents.confirm`, `payment_intents.*` or `*`. */
  readonly endpoint: string;
  readonly kind: FaultKind;
  /** Probability per matching request; without `rate` and `nth` the rule always fires. */
  readonly rate?: number;
  /** Fires on these matching requests, counted from 1. */
  readonly nth?: number | readonly number[];
  /** Fires at most so often. */
  readonly limit?: number;
  /** `slow`: before execution (60 s). `actThenDrop`: before the drop (0). `lateSuccess500`: until success (5 s, virtual). */
  readonly delayMs?: number;
  /** Sends `Stripe-Should-Retry` with this value; without it the header is absent. */
  readonly shouldRetry?: boolean;
  /** `status429` only: the value of `Stripe-Rate-Limited-Reason`, or `lock_timeout`. Default `endpoint-rate`. */
  readonly reason?: string;
  /** `status502/503/504` only: the request was executed (and its result saved) before the gateway failed. */
  readonly act?: boolean;
  /** `declineOnce` only. Default `generic_decline`. */
  readonly declineCode?: string;
  /** Only requests whose own metadata, or whose PaymentIntent's metadata, has all these values. */
  readonly where?: Readonly<Record<string, string>>;
}

/** A seeded list of faults: the same seed and the same order of requests give the same faults. */
export interface FaultPlan {
  readonly seed?: number;
  readonly rules: readonly FaultRule[];
}

/** Where events are sent, and how badly. Every field but `url` and `secret` can be changed while running. */
export interface WebhookOptions {
  readonly url: string;
  readonly secret: string;
  /** Types that are sent, as an endpoint at Stripe subscribes to them. Default: all. `deliver` is not bound by it. */
  readonly types?: readonly string[];
  /** `hold` keeps events until `POST /_sim/webhooks/deliver`. Default `auto`. */
  readonly mode?: 'auto' | 'hold';
  /** Each event is sent so many times. Default 1. */
  readonly copies?: number;
  /** Real milliseconds between the event and its first delivery. Default 0. */
  readonly delayMs?: number;
  /** The API reply waits until the endpoint has seen the event. Default false. */
  readonly beforeReply?: boolean;
  /** Tries per event on non-2xx or no reply. Default 8 (Stripe: three days live, 3 tries in a sandbox). */
  readonly maxAttempts?: number;
  /** First pause between tries, doubled each time, at most 60 s. Default 1000. */
  readonly retryDelayMs?: number;
}

/** How the simulator starts. Rates are requests per second; 0 = no limit. */
export interface SimulatorOptions {
  /** 0 (default) = any free port. */
  readonly port?: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** With it, everything but counters survives kill -9 and a restart. Without it, memory only. */
  readonly stateDir?: string;
  /** Added to each API call while its key is in flight. Default 0. */
  readonly latencyMs?: number;
  /** Default 25 per endpoint, burst = the rate. */
  readonly endpointRate?: number;
  readonly endpointBurst?: number;
  /** Default 100 per account and mode, burst = the rate. Stripe's sandboxes have 25: set it to be that strict. */
  readonly accountRate?: number;
  readonly accountBurst?: number;
  readonly faults?: FaultPlan;
  readonly webhook?: WebhookOptions;
  /** Only customers created through the API exist. Default false: any well-formed id does, `cus_missing…` apart. */
  readonly strictCustomers?: boolean;
  /** Age at which a key is forgotten, on the virtual clock. At least, and by default, 24 h. */
  readonly idempotencyRetentionMs?: number;
  /** How far Search lags behind, on the virtual clock. Default 60 s. */
  readonly searchLagMs?: number;
  /** Physical requests kept in the log. Default 200,000. */
  readonly requestLogSize?: number;
}
