import PgBoss from 'pg-boss';
import { sql } from 'kysely';
import type { Exhibit } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { openPool } from '../../harness/pool.ts';
import { until } from '../../harness/until.ts';
import { startCharging as fixed } from './fixed.ts';
import { startCharging as tempting } from './tempting.ts';

/** The first entry about a charge finds the disk full. The sequence counts it although the entry is rolled back. */
const FIRST_ENTRY_FAILS = `
  CREATE SEQUENCE audit_tries;
  CREATE FUNCTION refuse_first_entry() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF nextval('audit_tries') = 1 THEN
      RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
    END IF;
    RETURN NEW;
  END $$;`;
const AUDIT_TABLE = `
  CREATE TABLE audit (customer text NOT NULL, intent text NOT NULL, at timestamptz NOT NULL DEFAULT now());
  CREATE TRIGGER first_entry_fails BEFORE INSERT ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_first_entry();`;
const OUR_TRIGGER = `
  CREATE TRIGGER first_entry_fails BEFORE INSERT ON audit_log
    FOR EACH ROW WHEN (NEW.action = 'slot.charged') EXECUTE FUNCTION refuse_first_entry();`;

async function throughTheQueue(world: TemptingWorld, start: typeof tempting): Promise<void> {
  const connectionString = await world.database();
  const pool = openPool(connectionString, { max: 2 });
  const boss = new PgBoss({ connectionString, max: 2, supervise: false, schedule: false });
  boss.on('error', () => {});
  try {
    await pool.query(FIRST_ENTRY_FAILS + AUDIT_TABLE);
    await boss.start();
    await boss.createQueue('charges');
    for (const customer of world.customers) await boss.send('charges', customer);
    await start(world, boss, pool);
    await until(async () => {
      const { rowCount } = await pool.query('SELECT FROM audit');
      return (rowCount ?? 0) >= world.customers.length;
    });
  } finally {
    await boss.stop({ graceful: false, wait: true });
    await pool.end();
  }
}

export const messageFiredAgain: Exhibit = {
  number: 12,
  name: 'message-fired-again',
  room: 'B',
  title: 'the audit entry fails after the charge, and the error handler fires the message again',
  rule: 'What fails after the charge must not lead back to it. Retry the entry; and two messages about one charge need one key.',
  harm: 'chargedAgain',
  tempting: (world) => throughTheQueue(world, tempting),
  fixed: (world) => throughTheQueue(world, fixed),
  async ours(world) {
    const { db } = world.database;
    await sql.raw(FIRST_ENTRY_FAILS).execute(db);
    await sql.raw(OUR_TRIGGER).execute(db);
    await world.bill();
    const tries = await sql<{ last: string }>`
      SELECT last_value::text AS last FROM audit_tries`.execute(db);
    const last = tries.rows[0]?.last;
    if (last !== '2') throw new Error(`the entry was tried ${last} times instead of twice`);
    const confirms = world.stripe.requests().filter(({ path }) => path.endsWith('/confirm'));
    if (confirms.length !== 1) throw new Error('the failed entry led back to the charge');
  },
};
