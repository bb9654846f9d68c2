import { randomUUID, randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir, loadavg } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { loadConfig } from '../../src/config.ts';
import { openPlatform } from '../../src/cli/platform.ts';
import { baseEnv } from '../stack.ts';
import { cpuMs } from '../processes.ts';
import { emptyTable, postmasterPid } from './counts.ts';
import { readFileSync } from 'node:fs';

const src = readFileSync(new URL('../../src/http/idempotency/postgres-store.ts', import.meta.url), 'utf8');
const COMPLETE = /const COMPLETE = `([^`]+)`/.exec(src)![1]!;
const CLAIM = 'SELECT * FROM idempotency_claim($1, $2, $3, $4, $5, $6, $7)';
const CLAIM_NOSET = 'SELECT * FROM claim_noset($1, $2, $3, $4, $5, $6, $7)';
const INSERT = `INSERT INTO idempotency_records (principal, endpoint, idempotency_key, fingerprint, holder, lease_until)
 VALUES ($1, $2, $3, $4, $5, now() + $6::bigint * interval '1 millisecond') ON CONFLICT DO NOTHING RETURNING 1 AS fence`;
const home = mkdtempSync(path.join(tmpdir(), 'b-pg-')); chmodSync(home, 0o711);
const env = { ...baseEnv(), CHARGEONCE_HOME: home, LOG_LEVEL: 'error' };
const platform = await openPlatform({ config: loadConfig(env), env, embeddedOnly: true, needs: {}, note() {} });
const url = platform.databaseUrl.reveal();
const admin = new pg.Client(url); await admin.connect();
const { rows: [{ def }] } = await admin.query(`select pg_get_functiondef('idempotency_claim'::regproc) as def`);
await admin.query(def.replace('idempotency_claim', 'claim_noset').replace(/SET lock_timeout TO '500ms'/, ''));

let fast = def.replace('idempotency_claim', 'claim_out').replace(/RETURNS TABLE\(([^)]*)\)/, 'RETURNS record');
fast = fast.replace(/\(p_principal text/, '(p_principal text').replace('p_rerun boolean)', 'p_rerun boolean, OUT answer text, OUT fence bigint, OUT state idempotency_state, OUT status smallint, OUT headers jsonb, OUT body bytea)');
fast = fast.replace(/RETURN QUERY SELECT (CASE[^;]*?END|'\w+'), ([^,]+), ([^,]+), ([^,]+), ([^,]+), ([^;]+);/g, 'answer := $1; fence := $2; state := $3; status := $4; headers := $5; body := $6;').replaceAll('fence = fence + 1', 'fence = idempotency_records.fence + 1');
await admin.query(fast); await admin.query(fast.replace('claim_out', 'claim_out_noset').replace(/SET lock_timeout TO '500ms'/, ''));
if (process.argv[5]) console.log(fast);
const CTE = `WITH taken AS (INSERT INTO idempotency_records (principal, endpoint, idempotency_key, fingerprint, holder, lease_until)
 VALUES ($1, $2, $3, $4, $5, now() + $6::bigint * interval '1 millisecond') ON CONFLICT DO NOTHING RETURNING 1::bigint AS fence)
 SELECT 'claimed' AS answer, fence, NULL::idempotency_state AS state, NULL::smallint AS status, NULL::jsonb AS headers, NULL::bytea AS body FROM taken
 UNION ALL SELECT * FROM idempotency_claim($1, $2, $3, $4, $5, $6, $7) WHERE NOT EXISTS (SELECT FROM taken)`;
const pid = await postmasterPid(platform);
const fresh = async () => { await emptyTable(platform); };
interface V { name: string; claim: string; named: boolean; before?: string; after?: string; n?: number; conn?: string }
const IDX = `CREATE INDEX idempotency_records_in_flight ON idempotency_records (lease_until) WHERE state = 'IN_PROGRESS'`;
const EXP = `CREATE INDEX idempotency_records_expiring ON idempotency_records (expires_at) WHERE state <> 'IN_PROGRESS'`;
const variants: V[] = [
  { name: 'now', claim: CLAIM, named: false },
  { name: 'named', claim: CLAIM, named: true },
  { name: 'named out', claim: 'SELECT * FROM claim_out($1, $2, $3, $4, $5, $6, $7)', named: true },
  { name: 'named out noset', claim: 'SELECT * FROM claim_out_noset($1, $2, $3, $4, $5, $6, $7)', named: true },
  { name: 'named cte', claim: CTE, named: true },
  { name: 'named noset', claim: CLAIM_NOSET, named: true },
  { name: 'named insert', claim: INSERT, named: true },
  { name: 'named insert no in_flight', claim: INSERT, named: true, before: 'DROP INDEX idempotency_records_in_flight', after: IDX },
  { name: 'named insert HOT', claim: INSERT, named: true, before: 'DROP INDEX idempotency_records_in_flight; DROP INDEX idempotency_records_expiring', after: IDX + ';' + EXP },
  { name: 'named, 24 conns', claim: CLAIM, named: true, n: 24 },
  { name: 'named, 32 conns', claim: CLAIM, named: true, n: 32 },
  { name: 'named, 6 conns', claim: CLAIM, named: true, n: 6 },
];
const only = process.argv[2];
const DROPALL = `DO $$ DECLARE c text; BEGIN FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'idempotency_records'::regclass AND contype = 'c' LOOP EXECUTE format('ALTER TABLE idempotency_records DROP CONSTRAINT %I', c); END LOOP; END $$`;
const CROSS = `ALTER TABLE idempotency_records ADD CONSTRAINT a CHECK (CASE WHEN state = 'IN_PROGRESS' THEN lease_until IS NOT NULL AND num_nonnulls(completed_at, expires_at, status, headers, body) = 0 ELSE lease_until IS NULL AND num_nulls(completed_at, expires_at, status, headers) = 0 AND (state = 'FAILED') = (status >= 500) END)`;
const mig = readFileSync(new URL('../../migrations/0013_idempotency-records.sql', import.meta.url), 'utf8');
for (const [name, change] of [['noif', 'DROP INDEX idempotency_records_in_flight'], ['hot', 'DROP INDEX idempotency_records_in_flight; DROP INDEX idempotency_records_expiring'],
  ['brin', 'DROP INDEX idempotency_records_in_flight; DROP INDEX idempotency_records_expiring; CREATE INDEX ON idempotency_records USING brin (expires_at)'],
  ['ff100', 'ALTER TABLE idempotency_records SET (fillfactor = 100)'], ['same', ''], ['nochecks', `DO $$ DECLARE c text; BEGIN FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'idempotency_records'::regclass AND contype = 'c' LOOP EXECUTE format('ALTER TABLE idempotency_records DROP CONSTRAINT %I', c); END LOOP; END $$`],
  ['merged', DROPALL + `; ALTER TABLE idempotency_records ADD CONSTRAINT a CHECK (length(principal) BETWEEN 1 AND 255 AND length(endpoint) BETWEEN 1 AND 1024 AND length(idempotency_key) BETWEEN 1 AND 255 AND length(fingerprint) = 32 AND (state = 'IN_PROGRESS') = (lease_until IS NOT NULL) AND num_nulls(completed_at, expires_at, status, headers) = CASE WHEN state = 'IN_PROGRESS' THEN 4 ELSE 0 END
    AND (body IS NULL OR state <> 'IN_PROGRESS') AND (state = 'IN_PROGRESS' OR (state = 'FAILED') = (status >= 500)) AND status BETWEEN 200 AND 599)`],
  ['cross', DROPALL + ';' + CROSS],
  ['domains', DROPALL + ';' + CROSS + `;CREATE DOMAIN ip AS text CHECK (length(VALUE) BETWEEN 1 AND 255); CREATE DOMAIN ie AS text CHECK (length(VALUE) BETWEEN 1 AND 1024); CREATE DOMAIN ik AS text CHECK (length(VALUE) BETWEEN 1 AND 255);CREATE DOMAIN ifp AS bytea CHECK (length(VALUE) = 32); CREATE DOMAIN ist AS smallint CHECK (VALUE BETWEEN 200 AND 599);
   ALTER TABLE idempotency_records ALTER principal TYPE ip, ALTER endpoint TYPE ie, ALTER idempotency_key TYPE ik, ALTER fingerprint TYPE ifp, ALTER status TYPE ist`],
  ['domains3', DROPALL + `;ALTER TABLE idempotency_records ADD CONSTRAINT idempotency_leased_iff_in_progress CHECK ((state = 'IN_PROGRESS') = (lease_until IS NOT NULL)),
   ADD  CONSTRAINT idempotency_stored_iff_final CHECK (
    num_nulls(completed_at, expires_at, status, headers) = CASE WHEN state = 'IN_PROGRESS' THEN 4 ELSE 0 END
    AND (body IS NULL OR state <> 'IN_PROGRESS')),
  ADD CONSTRAINT idempotency_failed_iff_5xx CHECK (state = 'IN_PROGRESS' OR (state = 'FAILED') = (status >= 500))` + `;CREATE DOMAIN ip AS text CHECK (length(VALUE) BETWEEN 1 AND 255); CREATE DOMAIN ie AS text CHECK (length(VALUE) BETWEEN 1 AND 1024); CREATE DOMAIN ik AS text CHECK (length(VALUE) BETWEEN 1 AND 255);CREATE DOMAIN ifp AS bytea CHECK (length(VALUE) = 32); CREATE DOMAIN ist AS smallint CHECK (VALUE BETWEEN 200 AND 599);
   ALTER TABLE idempotency_records ALTER principal TYPE ip, ALTER endpoint TYPE ie, ALTER idempotency_key TYPE ik, ALTER fingerprint TYPE ifp, ALTER status TYPE ist`],
  ['two', DROPALL + `; ALTER TABLE idempotency_records ADD CONSTRAINT a CHECK ((state = 'IN_PROGRESS') = (lease_until IS NOT NULL)); ALTER TABLE idempotency_records ADD CONSTRAINT b CHECK (num_nulls(completed_at, expires_at, status, headers) = CASE WHEN state = 'IN_PROGRESS' THEN 4 ELSE 0 END)`],
  ['notrigger', 'DROP TRIGGER stored_response_is_kept ON idempotency_records']] as const) {
  await admin.query(`CREATE SCHEMA s_${name}; SET search_path = s_${name};` + mig + ';' + change + '; SET search_path = public');
  variants.push({ name: 's_' + name, claim: CLAIM, named: true, conn: 's_' + name });
}
const S = Number(process.argv[3] ?? 3), R = Number(process.argv[4] ?? 3);

const mine = variants.filter((v) => !only || new RegExp(only).test(v.name));
const conns = new Map<string, pg.Client[]>();
for (const v of mine) conns.set(v.name, await Promise.all(Array.from({ length: v.n ?? 12 }, async () => { const c = new pg.Client(url); await c.connect(); if (v.conn) await c.query('SET search_path = ' + v.conn); return c; })));
const out = new Map(mine.map((v) => [v.name, { n: 0, p: 0, me: 0, s: 0 }]));
const slice = async (v: V, ms: number, count: boolean) => {
  const q = (c: pg.Client, name: string, text: string, values: unknown[]) => v.named ? c.query({ name, text, values }) : c.query(text, values);
  const stop = performance.now() + ms; let n = 0; const me0 = process.cpuUsage(); const p0 = cpuMs(pid); const t0 = performance.now();
  await Promise.all(conns.get(v.name)!.map(async (c) => {
    while (performance.now() < stop) {
      const key = randomUUID(), holder = randomUUID();
      const vals = ['bench', '*', key, randomBytes(32), holder, 120000];
      const a = await q(c, 'claim', v.claim, v.claim === INSERT ? vals : [...vals, false]);
      if (Number(a.rows[0].fence) !== 1) throw new Error('x');
      const b = await q(c, 'complete', COMPLETE, ['bench', '*', key, holder, 1, 'COMPLETED', 201, JSON.stringify([['content-type', 'application/json; charset=utf-8']]), Buffer.from('{"id":"ch_1","status":"succeeded","amount":4200}'), 86400000]);
      if (b.rows.length !== 1) throw new Error('y');
      n++;
    }
  }));
  if (!count) return;
  const o = out.get(v.name)!, me = process.cpuUsage(me0);
  o.n += n; o.s += (performance.now() - t0) / 1000; o.p += (cpuMs(pid) - p0) * 1000; o.me += me.user + me.system;
};
for (const v of mine) await slice(v, 400, false);
for (let r = 0; r < R; r++) for (const v of r % 2 ? mine.toReversed() : mine) await slice(v, S * 1000, true);
console.log('load', loadavg()); console.log((await admin.query(`select schemaname, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname='idempotency_records'`)).rows.map((x) => Object.values(x).join(' ')).join(', '));
for (const [name, o] of out) console.log(name.padEnd(28), 'req/s', (o.n / o.s).toFixed(0), ' pg µs', (o.p / o.n).toFixed(0), ' me µs', (o.me / o.n).toFixed(0), 'n', o.n);
for (const cs of conns.values()) for (const c of cs) await c.end();
await admin.end(); await platform.close(); rmSync(home, { recursive: true, force: true });
