import { open } from 'node:fs/promises';
import { Tally } from './tally.ts';

/** Written by log_line_prefix: our word, SQLSTATE, application. */
const ERROR_LINE = /^chaos ([0-9A-Z]{5}) (.*?) ?(?:ERROR|FATAL): /gm;
const OWN = 'chaos harness';

/** What PostgreSQL says that it refused, by SQLSTATE: proof that an error reached somebody. */
export class PostgresLog {
  readonly #file: string;
  readonly #seen = new Tally();
  #offset = 0;
  #rest = '';

  constructor(file: string) {
    this.#file = file;
  }

  /** Errors so far by SQLSTATE, without the harness's own. */
  async bySqlstate(): Promise<Tally> {
    const text = this.#rest + (await this.#readOn());
    const end = text.lastIndexOf('\n') + 1;
    this.#rest = text.slice(end);
    for (const [, code = '', who] of text.slice(0, end).matchAll(ERROR_LINE)) {
      if (who !== OWN) this.#seen.add(code);
    }
    return this.#seen;
  }

  /** One of these errors went to the harness itself, whose name the server did not know yet. */
  discount(sqlstate: string): void {
    this.#seen.add(sqlstate, -1);
  }

  async #readOn(): Promise<string> {
    const handle = await open(this.#file, 'r');
    try {
      const { size } = await handle.stat();
      const buffer = Buffer.alloc(Math.max(0, size - this.#offset));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, this.#offset);
      this.#offset += bytesRead;
      return buffer.toString('utf8', 0, bytesRead);
    } finally {
      await handle.close();
    }
  }
}
