import { Client } from 'pg';
import type { SlotState } from '../domain/charge.ts';
import type { RunRef } from '../domain/ids.ts';
import type { OnProgress } from './witnesses.ts';

/** A slot as its row says it. `version` changes with every write to the row. */
export interface AuditedSlot {
  readonly state: SlotState;
  readonly generation: number;
  readonly key: string | null;
  readonly paymentIntentId: string | null;
  readonly chargeId: string | null;
  readonly reason: string | null;
  readonly version: string;
}

interface AuditedGeneration {
  readonly key: string;
  readonly operation: string;
  readonly generation: number;
  readonly outcome: string | null;
  readonly chargeId: string | null;
  /** what the frozen body says otherwise than the item; null when it agrees */
  readonly problem: string | null;
}

interface Amount {
  readonly amountMinor: number;
  readonly currency: string;
}

/** A customer of the frozen plan with everything the database knows. */
export interface AuditedCustomer extends Amount {
  readonly stripeCustomerId: string;
  readonly slot: AuditedSlot | null;
  readonly generations: AuditedGeneration[];
  /** the slot.charged rows of the audit log */
  readonly logged: Amount[];
  /** the charge that a person, and no activity, said pays the slot */
  resolvedCharge: string | null;
}

export interface DatabaseReading {
  readonly account: string | null;
  readonly livemode: boolean | null;
  /** null when the period was never planned */
  readonly run: {
    readonly state: string;
    readonly customerCount: number;
    readonly plannedAt: Date;
  } | null;
  readonly customers: Map<string, AuditedCustomer>;
  /** attempt id → key it was recorded under */
  readonly attempts: Map<string, string>;
  /** slot.charged rows for customers that are not in the plan */
  readonly loggedOutside: readonly string[];
}

interface ReadOptions {
  readonly databaseUrl: string;
  readonly run: RunRef;
  /** without it only items and slots are read */
  readonly whole: boolean;
  readonly onProgress: OnProgress;
}

const FETCH_ROWS = 5_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** A fetch of 5,000 rows takes milliseconds; the longest wait is for the sort behind the first one. */
const STATEMENT_TIMEOUT_MS = 120_000;

/**
 * Reads a period with SQL of its own, in one read-only snapshot and through cursors, so that memory
 * holds what is compared and never the texts it comes from.
 */
export async function readDatabase(options: ReadOptions): Promise<DatabaseReading> {
  return withClient(options.databaseUrl, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const reading = { ...(await readHead(client, options.run)), ...emptyMaps() };
    await readItems(client, options, reading.customers);
    if (options.whole) {
      await readGenerations(client, options.run, reading.customers);
      await readAttempts(client, options.run, reading.attempts);
      await readLog(client, options.run, reading);
      await readResolutions(client, options.run, reading.customers);
    }
    await client.query('COMMIT');
    return reading;
  });
}

/** The present version of some slots: one that has changed since the snapshot is still moving. */
export async function readVersions(
  databaseUrl: string,
  run: RunRef,
  customerIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  return withClient(databaseUrl, async (client) => {
    const { rows } = await client.query<{ customer_id: string; version: string }>(
      `SELECT customer_id, updated_at::text AS version FROM billing_charges
       WHERE namespace = $1 AND period = $2 AND customer_id = ANY($3)`,
      [run.namespace, run.period, customerIds],
    );
    return new Map(rows.map((row) => [row.customer_id, row.version]));
  });
}

async function withClient<T>(
  databaseUrl: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client({
    connectionString: databaseUrl,
    application_name: 'chargeonce audit',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
  });
  // The query under way rejects too; without a listener the process would end first.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

function emptyMaps() {
  return {
    customers: new Map<string, AuditedCustomer>(),
    attempts: new Map<string, string>(),
    loggedOutside: [] as string[],
  };
}

async function readHead(client: Client, run: RunRef) {
  const environment = await client.query<{ stripe_account: string; live_mode: boolean }>(
    'SELECT stripe_account, live_mode FROM environment',
  );
  const found = await client.query<{ state: string; customer_count: number; planned_at: Date }>(
    'SELECT state, customer_count, planned_at FROM billing_runs WHERE namespace = $1 AND period = $2',
    [run.namespace, run.period],
  );
  const row = found.rows[0];
  return {
    account: environment.rows[0]?.stripe_account ?? null,
    livemode: environment.rows[0]?.live_mode ?? null,
    run:
      row === undefined
        ? null
        : { state: row.state, customerCount: row.customer_count, plannedAt: row.planned_at },
  };
}

/** Every row of a query, a few thousand at a time. */
async function* scan<Row extends object>(
  client: Client,
  query: string,
  run: RunRef,
): AsyncGenerator<Row> {
  await client.query(`DECLARE audit_rows NO SCROLL CURSOR FOR ${query}`, [
    run.namespace,
    run.period,
  ]);
  for (;;) {
    const { rows } = await client.query<Row>(`FETCH ${FETCH_ROWS} FROM audit_rows`);
    yield* rows;
    if (rows.length < FETCH_ROWS) break;
  }
  await client.query('CLOSE audit_rows');
}

interface ItemRow {
  customer_id: string;
  stripe_customer_id: string;
  amount_minor: string;
  currency: string;
  state: SlotState | null;
  generation: number | null;
  idempotency_key: string | null;
  payment_intent_id: string | null;
  charge_id: string | null;
  reason: string | null;
  version: string | null;
}

async function readItems(
  client: Client,
  { run, onProgress }: ReadOptions,
  customers: Map<string, AuditedCustomer>,
): Promise<void> {
  const rows = scan<ItemRow>(
    client,
    `SELECT i.customer_id, i.stripe_customer_id, i.amount_minor, i.currency, s.state, s.generation,
       s.idempotency_key, s.payment_intent_id, s.charge_id, s.reason, s.updated_at::text AS version
     FROM billing_items i LEFT JOIN billing_charges s
       ON s.namespace = i.namespace AND s.period = i.period AND s.customer_id = i.customer_id
     WHERE i.namespace = $1 AND i.period = $2`,
    run,
  );
  for await (const row of rows) {
    customers.set(row.customer_id, {
      stripeCustomerId: row.stripe_customer_id,
      ...amountOf(row),
      slot: slotOf(row),
      generations: [],
      resolvedCharge: null,
      logged: [],
    });
    if (customers.size % FETCH_ROWS === 0) report(onProgress, customers.size);
  }
  report(onProgress, customers.size);
}

function report(onProgress: OnProgress, done: number): void {
  onProgress({ witness: 'database', done, total: null });
}

function slotOf(row: ItemRow): AuditedSlot | null {
  if (row.state === null) return null;
  return {
    state: row.state,
    generation: row.generation ?? 0,
    key: row.idempotency_key,
    paymentIntentId: row.payment_intent_id,
    chargeId: row.charge_id,
    reason: row.reason,
    version: row.version ?? '',
  };
}

/** Postgres gives int8 as text; beyond 2^53 it would lose digits as a number. */
function amountOf(row: { amount_minor: string; currency: string }): Amount {
  const amountMinor = Number(row.amount_minor);
  if (!Number.isSafeInteger(amountMinor))
    throw new RangeError(`amount ${row.amount_minor} is too large`);
  return { amountMinor, currency: row.currency };
}

async function readGenerations(
  client: Client,
  run: RunRef,
  customers: ReadonlyMap<string, AuditedCustomer>,
): Promise<void> {
  const rows = scan<{
    customer_id: string;
    idempotency_key: string;
    operation: string;
    generation: number;
    outcome: string | null;
    charge_id: string | null;
    request_body: string;
  }>(
    client,
    `SELECT customer_id, idempotency_key, operation, generation, outcome, charge_id, request_body
     FROM charge_generations WHERE namespace = $1 AND period = $2`,
    run,
  );
  for await (const row of rows) {
    const customer = customers.get(row.customer_id);
    customer?.generations.push({
      key: row.idempotency_key,
      operation: row.operation,
      generation: row.generation,
      outcome: row.outcome,
      chargeId: row.charge_id,
      problem: row.operation === 'create' ? bodyProblem(row, customer, run) : null,
    });
  }
}

/** Compares what would be sent with what is due: a wrong body is found before and after it is sent. */
function bodyProblem(
  row: { customer_id: string; request_body: string },
  item: AuditedCustomer,
  run: RunRef,
): string | null {
  const body = new URLSearchParams(row.request_body);
  const due: Readonly<Record<string, string>> = {
    amount: String(item.amountMinor),
    currency: item.currency,
    customer: item.stripeCustomerId,
    'metadata[chargeonce_namespace]': run.namespace,
    'metadata[chargeonce_customer]': row.customer_id,
    'metadata[chargeonce_period]': run.period,
  };
  for (const [name, value] of Object.entries(due)) {
    const sent = body.get(name);
    if (sent !== value) return `${name} is ${sent ?? 'missing'} instead of ${value}`;
  }
  return null;
}

async function readAttempts(
  client: Client,
  run: RunRef,
  attempts: Map<string, string>,
): Promise<void> {
  const rows = scan<{ attempt_id: string; idempotency_key: string }>(
    client,
    `SELECT a.attempt_id, a.idempotency_key FROM charge_attempts a
     JOIN charge_generations g ON g.idempotency_key = a.idempotency_key
     WHERE g.namespace = $1 AND g.period = $2`,
    run,
  );
  for await (const row of rows) attempts.set(row.attempt_id, row.idempotency_key);
}

async function readResolutions(
  client: Client,
  run: RunRef,
  customers: ReadonlyMap<string, AuditedCustomer>,
): Promise<void> {
  const rows = scan<{ customer_id: string; charge_id: string }>(
    client,
    `SELECT customer_id, charge_id FROM slot_resolutions
     WHERE namespace = $1 AND period = $2 AND decides AND verdict = 'charged'`,
    run,
  );
  for await (const row of rows) {
    const customer = customers.get(row.customer_id);
    if (customer !== undefined) customer.resolvedCharge = row.charge_id;
  }
}

async function readLog(
  client: Client,
  run: RunRef,
  into: { customers: ReadonlyMap<string, AuditedCustomer>; loggedOutside: string[] },
): Promise<void> {
  const rows = scan<{ customer_id: string | null; amount_minor: string; currency: string }>(
    client,
    `SELECT customer_id, coalesce(amount_minor, 0) AS amount_minor, coalesce(currency, '') AS currency
     FROM audit_log WHERE namespace = $1 AND period = $2 AND action = 'slot.charged'`,
    run,
  );
  for await (const row of rows) {
    const customer = into.customers.get(row.customer_id ?? '');
    if (customer === undefined) into.loggedOutside.push(row.customer_id ?? '(no customer)');
    else customer.logged.push(amountOf(row));
  }
}
