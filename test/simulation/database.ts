// One PostgreSQL in this process (PGlite) whose now() is the virtual one, behind Kysely.
import { readdirSync, readFileSync } from 'node:fs';
import { PGlite } from '@electric-sql/pglite';
import {
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  type QueryResult,
  type TransactionSettings,
} from 'kysely';
import type { DB } from '../../src/db/schema.ts';
import { parseInt8 } from '../../src/db/database.ts';
import { thisFiber, type Fiber } from './fiber.ts';
import type { World } from './world.ts';

const MIGRATIONS = new URL('../../migrations/', import.meta.url);
const INT8_OID = 20;
const WORLDS_PER_TRUNCATION = 50;

/** Every change of a slot and every rerun's answer, written by triggers: the checker's own witness. */
const JOURNAL = `
  CREATE SCHEMA harness;
  CREATE TABLE harness.journal (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),
    xid text NOT NULL DEFAULT pg_current_xact_id()::text, kind text NOT NULL, customer_id text NOT NULL,
    was text, became text NOT NULL, old_generation integer, new_generation integer);
  CREATE FUNCTION harness.note_slot() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO harness.journal (kind, customer_id, was, became, old_generation, new_generation)
    VALUES ('slot', NEW.customer_id, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state,
      CASE TG_OP WHEN 'UPDATE' THEN OLD.generation END, NEW.generation);
    RETURN NULL;
  END $$;
  CREATE FUNCTION harness.note_rerun() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO harness.journal (kind, customer_id, became) VALUES ('rerun', NEW.customer_id, NEW.answer);
    RETURN NULL;
  END $$;
  CREATE TRIGGER note AFTER INSERT OR UPDATE ON billing_charges FOR EACH ROW EXECUTE FUNCTION harness.note_slot();
  CREATE TRIGGER note AFTER INSERT ON rerun_requests FOR EACH ROW EXECUTE FUNCTION harness.note_rerun();`;

/** The database of this process; worlds use it one after the other. */
export class SimulatedPostgres {
  readonly pg: PGlite;
  readonly #tables: readonly string[];
  readonly #sequences: readonly string[];
  #worlds = 0;

  private constructor(
    pg: PGlite,
    of: { readonly tables: readonly string[]; readonly sequences: readonly string[] },
  ) {
    this.pg = pg;
    this.#tables = of.tables;
    this.#sequences = of.sequences;
  }

  /** A new database with all migrations and the journal. */
  static async open(): Promise<SimulatedPostgres> {
    const pg = await PGlite.create({ parsers: { [INT8_OID]: parseInt8 } });
    for (const name of readdirSync(MIGRATIONS).sort()) {
      if (name.endsWith('.sql')) await pg.exec(readFileSync(new URL(name, MIGRATIONS), 'utf8'));
    }
    await pg.exec(JOURNAL);
    // Nothing here outlives the process; waiting for a disk that is memory costs half of each commit.
    await pg.exec('SET synchronous_commit = off');
    const listed = async (sql: string): Promise<readonly string[]> => {
      const { rows } = await pg.query<{ name: string }>(sql);
      return rows.map(({ name }) => name);
    };
    const schemas = `schemaname IN ('public', 'harness') ORDER BY 1`;
    return new SimulatedPostgres(pg, {
      tables: await listed(
        `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE ${schemas}`,
      ),
      sequences: await listed(
        `SELECT format('%I.%I', schemaname, sequencename) AS name FROM pg_sequences WHERE ${schemas}`,
      ),
    });
  }

  /** As after the migrations. Triggers that refuse a deletion are asleep meanwhile. */
  async empty(): Promise<void> {
    // Deleting a few rows is far cheaper than truncating, but leaves them to be skipped.
    const clear =
      this.#worlds % WORLDS_PER_TRUNCATION === 0
        ? `TRUNCATE ${this.#tables.join(', ')}`
        : this.#tables.map((table) => `DELETE FROM ${table}`).join(';');
    this.#worlds += 1;
    const restart = this.#sequences.map((name) => `SELECT setval('${name}', 1, false)`).join(';');
    await this.pg.exec(
      `ROLLBACK; SET session_replication_role = replica; ${clear}; ${restart};
       SET session_replication_role = origin`,
    );
  }
}

/** The connections of one world: faults, latency, and one transaction at a time. */
export class SimulatedDatabase {
  readonly db: Kysely<DB>;
  readonly #pg: PGlite;
  readonly #world: World;
  #owner: Connection | null = null;
  #waiting: (() => void)[] = [];

  constructor(world: World, postgres: SimulatedPostgres) {
    this.#world = world;
    this.#pg = postgres.pg;
    const driver: Driver = {
      init: async () => {},
      acquireConnection: async () => new Connection((query) => this.#query(query)),
      beginTransaction: (connection, settings) => this.#begin(own(connection), settings),
      commitTransaction: (connection) => this.#end(own(connection), 'COMMIT'),
      rollbackTransaction: (connection) => this.#end(own(connection), 'ROLLBACK'),
      releaseConnection: async () => {},
      destroy: async () => {},
    };
    this.db = new Kysely<DB>({
      dialect: {
        createAdapter: () => new PostgresAdapter(),
        createDriver: () => driver,
        createIntrospector: (db) => new PostgresIntrospector(db),
        createQueryCompiler: () => new PostgresQueryCompiler(),
      },
    });
  }

  /** Its process is gone, or the server went down: an open transaction is rolled back. */
  abandon(fiber: Fiber | null): void {
    const owner = this.#owner;
    if (owner === null || owner.broken || (fiber !== null && owner.fiber !== fiber)) return;
    owner.broken = true;
    void this.#rollBack();
  }

  async #rollBack(): Promise<void> {
    this.#world.time.busy += 1;
    await this.#pg.exec('ROLLBACK');
    this.#world.time.busy -= 1;
    this.#release();
  }

  async #query({ connection, query }: Statement): Promise<QueryResult<never>> {
    const { sql, parameters } = query;
    return this.#call(connection, sql, async () => {
      const { rows, affectedRows } = await this.#pg.query<never>(sql, [...parameters]);
      return { rows, numAffectedRows: BigInt(affectedRows ?? 0) };
    });
  }

  async #begin(connection: Connection, settings: TransactionSettings): Promise<void> {
    const { isolationLevel } = settings;
    const level = isolationLevel === undefined ? '' : ` ISOLATION LEVEL ${isolationLevel}`;
    await this.#call(connection, `BEGIN${level}`, async () => {
      this.#owner = connection;
      await this.#pg.exec(`BEGIN${level}`);
    });
  }

  async #end(connection: Connection, how: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    // The server has rolled back what a broken connection left.
    if (how === 'ROLLBACK' && connection.broken) return;
    await this.#call(connection, how, async () => {
      await this.#pg.exec(how);
      this.#release();
    });
  }

  #release(): void {
    this.#owner = null;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }

  /** One round trip: the request travels, takes effect, and its answer travels back or is lost. */
  async #call<T>(connection: Connection, sql: string, effect: () => Promise<T>): Promise<T> {
    const fiber = thisFiber();
    connection.fiber = fiber;
    const fault = sql === 'ROLLBACK' ? null : this.#world.faults.database(fiber.customer);
    return this.#world.portCall(fiber, `sql ${nameOf(sql)}`, async () => {
      if (connection.broken) throw lostConnection();
      if (this.#world.databaseDown || fault?.kind === 'refused') {
        if (this.#owner === connection) this.abandon(fiber);
        throw Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), {
          code: 'ECONNREFUSED',
        });
      }
      while (this.#owner !== null && this.#owner !== connection) {
        await new Promise<void>((resolve) => {
          this.#waiting.push(resolve);
        });
      }
      // Its process died while it waited: the server closes the connection and nothing is begun on it.
      if (!fiber.alive && sql.startsWith('BEGIN')) await new Promise<never>(() => {});
      if (fault !== null && fault.kind !== 'answerLost') {
        throw Object.assign(new Error(`simulated ${fault.kind}`), { code: fault.kind });
      }
      this.#world.time.busy += 1;
      let result: T;
      try {
        result = await effect();
      } finally {
        this.#world.time.busy -= 1;
      }
      if (fault === null) return result;
      this.#world.saw('commit or statement took effect, answer lost');
      if (this.#owner === connection) this.abandon(fiber);
      connection.broken = true;
      throw lostConnection();
    });
  }
}

interface Statement {
  readonly connection: Connection;
  readonly query: CompiledQuery;
}

class Connection implements DatabaseConnection {
  broken = false;
  fiber: Fiber | null = null;
  readonly #query: (statement: Statement) => Promise<QueryResult<never>>;

  constructor(query: (statement: Statement) => Promise<QueryResult<never>>) {
    this.#query = query;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    return this.#query({ connection: this, query });
  }

  // oxlint-disable-next-line require-yield -- nothing here streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('the simulation does not stream');
  }
}

function own(connection: DatabaseConnection): Connection {
  if (connection instanceof Connection) return connection;
  throw new Error('not a connection of the simulation');
}

function lostConnection(): Error {
  return new Error('Connection terminated unexpectedly');
}

/** What a statement is about, for the trace. */
function nameOf(sql: string): string {
  const verb =
    /\b(insert into|update|delete from|select|begin|commit|rollback|set local|analyze)\b/i.exec(
      sql,
    )?.[1];
  const writes = /\b(?:insert into|update|delete from)\s+"?([a-z_]+)"?/i.exec(sql)?.[1];
  const reads = /\bfrom\s+"?([a-z_]+)"?/i.exec(sql)?.[1];
  return `${verb?.toLowerCase() ?? 'statement'} ${writes ?? reads ?? ''}`.trim();
}
