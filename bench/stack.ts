import { sql } from 'kysely';
import { loadConfig } from '../src/config.ts';
import { openPlatform, type Platform } from '../src/cli/platform.ts';
import type { Db } from '../src/db/database.ts';

export interface BenchStackOptions {
  readonly home: string;
  /** charges per second, 0 for no limit */
  readonly chargesPerSecond: number;
  /** the simulator's limit per endpoint and second, 0 for none */
  readonly endpointRate: number;
  /** the vault between the worker and the simulator; not unless told so */
  readonly vault?: boolean;
  readonly note: (message: string) => void;
}

/** The embedded stack as `chargeonce run` uses it, in a home of its own; nothing configured is touched. */
export async function openBenchStack(options: BenchStackOptions): Promise<Platform> {
  const env: NodeJS.ProcessEnv = {
    CHARGEONCE_HOME: options.home,
    CHARGES_PER_SECOND: String(options.chargesPerSecond),
    LOG_LEVEL: 'error',
    EMBEDDED_VAULT: options.vault === true ? 'on' : 'off',
    RECONCILE_PAUSES: '2s,2s',
    ...baseEnv(),
  };
  return openPlatform({
    config: loadConfig(env),
    env,
    embeddedOnly: true,
    needs: { temporal: true, stripe: true, worker: true },
    simulatorArgs: ['--endpoint-rate', String(options.endpointRate), '--account-rate', '0'],
    note: options.note,
  });
}

/** What the parts take over of this process's environment: nothing that configures chargeonce. */
export function baseEnv(): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of [
    'PATH',
    'HOME',
    'LANG',
    'TMPDIR',
    'TEMPORAL_CLI_PATH',
    'TEMPORAL_SOURCES',
    'CHARGEONCE_CACHE',
  ]) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  return env;
}

/** Replaces the customers by `count` made-up ones that all can be charged. */
export async function fillCustomers(db: Db, count: number): Promise<void> {
  await sql`DELETE FROM customers`.execute(db);
  await sql`
    INSERT INTO customers (customer_id, stripe_customer_id, payment_method_id, amount_minor, currency)
    SELECT 'cust_' || lpad(n::text, 7, '0'), 'cus_Bench' || n, 'pm_card_visa', 1000 + n % 5000, 'usd'
    FROM generate_series(1, ${count}::integer) AS n`.execute(db);
}
