// One of those who would lead.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import { openPool } from '../../harness/pool.ts';
import { billAsLeader as fixed } from './fixed.ts';
import { billAsLeader as tempting } from './tempting.ts';

/** Fifteen seconds in real life. */
const LEASE_MS = 500;

const shop = await shopOfReplica(process.env);
const pool = openPool(process.env['DATABASE_URL'] ?? '');
const billAsLeader = process.env['WAY'] === 'fixed' ? fixed : tempting;
await billAsLeader(shop, pool, { holder: `pod-${process.pid}`, leaseMs: LEASE_MS });
await pool.end();
