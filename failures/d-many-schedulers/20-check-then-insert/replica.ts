// One replica of the billing job, with the database that all of them share.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import { openPool } from '../../harness/pool.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

const shop = await shopOfReplica(process.env);
const pool = openPool(process.env['DATABASE_URL'] ?? '');
await (process.env['WAY'] === 'fixed' ? fixed : tempting)(shop, pool);
await pool.end();
