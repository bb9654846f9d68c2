import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Kysely } from 'kysely';
import type { RunClient } from '../../client.ts';
import type { DB } from '../../db/schema.ts';
import type { RunRef } from '../../domain/ids.ts';
import type { Log } from '../../log.ts';
import type { PaymentGateway } from '../../payments/gateway.ts';
import type { Secret } from '../../secret.ts';

/** Where the vault's admin API is, and what it wants to be shown. */
export interface VaultAdminAccess {
  readonly url: string;
  readonly token: Secret;
}

/** The world of the operator API; made by src/server.ts. */
export interface ApiDeps {
  readonly db: Kysely<DB>;
  /** Connects at the first call; throws while Temporal is away, and tries again at the next one. */
  readonly temporal: () => Promise<RunClient>;
  readonly log: Log;
  readonly mode: 'test' | 'live';
  /** the Stripe account that is billed */
  readonly account: string;
  /** null: this server was not given the vault's admin API and token */
  readonly vaultAdmin: VaultAdminAccess | null;
  /** How Stripe is read about one run: with a vault, under that run's own key. */
  readonly gatewayOf: (run: RunRef) => PaymentGateway;
  /** Temporal's UI, without a slash at the end; null when it is not known */
  readonly temporalUiUrl: string | null;
  readonly temporalNamespace: string;
  /** BILLING_ZONE */
  readonly zone: string;
  /** RESOLVE_APPROVERS */
  readonly resolveApprovers: number;
  readonly now: () => Date;
}

/** The application as routes of `/v1` see it: schemas are zod's, and type what handlers get. */
export type ApiApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>;
