// The Idempotency-Key layer as other applications have it: nothing here knows of billing.
export { storeConformance, type ConformanceCheck, type ConformanceTools } from './conformance.ts';
export { idempotency } from './plugin.ts';
export { migrationSql } from './migration.ts';
export type {
  IdempotencyEvent,
  IdempotencyOptions,
  RequestIdempotency,
  RouteIdempotency,
} from './options.ts';
export { PostgresIdempotencyStore, type Queryable } from './postgres-store.ts';
export { prepared, type PreparingPool } from './prepared.ts';
export type {
  Claim,
  ClaimAnswer,
  FinalState,
  Hold,
  IdempotencyStore,
  Interrupted,
  RecordId,
  StoredResponse,
  Takeover,
} from './store.ts';
