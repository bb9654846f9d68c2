import { randomBytes, randomUUID } from 'node:crypto';
import { Pool } from 'pg';
import { expect, it } from 'vitest';
import { PostgresIdempotencyStore, prepared } from '../../src/http/idempotency/index.ts';
import { migratedDatabase } from '../support/engine.ts';

const LONG_MS = 60_000;

it('prepares each statement of the store once per connection, and takes and answers keys with it', async () => {
  const pool = new Pool({ connectionString: await migratedDatabase(), max: 1 });
  pool.on('error', () => {});
  try {
    const store = new PostgresIdempotencyStore(prepared(pool));
    for (let round = 0; round < 3; round += 1) {
      const id = { principal: 'tenant', endpoint: '*', key: randomUUID() };
      const [holder, fingerprint] = [randomUUID(), randomBytes(32)];
      const claim = {
        ...id,
        fingerprint,
        holder,
        leaseMs: LONG_MS,
        takeover: 'conflict',
      } as const;
      const response = {
        state: 'COMPLETED',
        status: 201,
        headers: [['location', '/1']],
        body: Buffer.from([0, 255]),
      } as const;
      expect(await store.claim(claim)).toMatchObject({ kind: 'claimed', fence: 1 });
      expect(await store.complete({ ...id, holder, fence: 1 }, response, LONG_MS)).toBe('stored');
      expect(await store.claim({ ...claim, holder: randomUUID() })).toEqual({
        kind: 'stored',
        response,
      });
    }
    const { rows } = await pool.query<{ readonly statement: string; readonly uses: number }>(
      `SELECT statement, (generic_plans + custom_plans)::integer AS uses FROM pg_prepared_statements
       WHERE name LIKE 'idempotency\\_%' ORDER BY uses`,
    );
    expect(rows.map(({ uses }) => uses)).toEqual([3, 6]);
    expect(rows[1]?.statement).toContain('idempotency_claim');
  } finally {
    await pool.end();
  }
});
