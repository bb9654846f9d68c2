import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { StatementSync } from 'node:sqlite';

/** One saved thing: its kind, the tenant it belongs to, its id, and its JSON. */
export interface JournalRow {
  readonly kind: string;
  readonly tenant: string;
  readonly id: string;
  readonly json: string;
}

const SCHEMA = `
  create table if not exists journal (
    seq integer primary key, kind text not null, tenant text not null, id text not null, json text not null,
    unique (kind, tenant, id)
  );
  create index if not exists journal_by_kind on journal (kind, seq);`;

/**
 * State on disk: rows written in one transaction per API request, before its reply leaves, so a killed process
 * forgets nothing it has answered and keeps nothing half done. `synchronous=off` is enough for a killed process (not
 * for a power cut, which a simulator need not survive); the exclusive lock keeps a second simulator out and dies with us.
 */
export class Journal {
  readonly #db: DatabaseSync;
  readonly #put: StatementSync;
  readonly #remove: StatementSync;
  readonly #read: StatementSync;

  constructor(stateDir: string) {
    mkdirSync(stateDir, { recursive: true });
    const path = join(stateDir, 'simulator.sqlite');
    this.#db = new DatabaseSync(path);
    try {
      this.#db.exec(
        'pragma locking_mode=exclusive; pragma journal_mode=wal; pragma synchronous=off;',
      );
      this.#db.exec(SCHEMA);
    } catch (cause) {
      this.#db.close();
      throw new Error(`${path} cannot be used; is another simulator running on it?`, { cause });
    }
    this.#put = this.#db.prepare(
      'insert into journal (kind, tenant, id, json) values (?, ?, ?, ?) ' +
        'on conflict (kind, tenant, id) do update set json = excluded.json',
    );
    this.#remove = this.#db.prepare('delete from journal where kind = ? and tenant = ? and id = ?');
    this.#read = this.#db.prepare(
      'select json from journal where kind = ? and tenant = ? and id = ?',
    );
  }

  write(rows: readonly JournalRow[]): void {
    // A slow request may end after the close: as after a kill, it has no effect.
    if (rows.length === 0 || !this.#db.isOpen) return;
    this.#db.exec('begin');
    try {
      for (const row of rows) this.#put.run(row.kind, row.tenant, row.id, row.json);
      this.#db.exec('commit');
    } catch (error) {
      this.#db.exec('rollback');
      throw error;
    }
  }

  remove(kind: string, tenant: string, id: string): void {
    this.#remove.run(kind, tenant, id);
  }

  read(kind: string, tenant: string, id: string): string | undefined {
    const json = this.#read.get(kind, tenant, id)?.['json'];
    return typeof json === 'string' ? json : undefined;
  }

  /** All rows of a kind in the order of their first write, one at a time. */
  *rows(kind: string): Generator<JournalRow> {
    const all = this.#db.prepare(
      'select kind, tenant, id, json from journal where kind = ? order by seq',
    );
    for (const row of all.iterate(kind)) {
      yield {
        kind,
        tenant: String(row['tenant']),
        id: String(row['id']),
        json: String(row['json']),
      };
    }
  }

  /** Keeps the newest `count` rows of a kind. */
  trim(kind: string, count: number): void {
    this.#db
      .prepare(
        'delete from journal where kind = ? and seq <= ' +
          '(select seq from journal where kind = ? order by seq desc limit 1 offset ?)',
      )
      .run(kind, kind, count);
  }

  clear(): void {
    this.#db.exec('delete from journal');
  }

  close(): void {
    this.#db.close();
  }
}
