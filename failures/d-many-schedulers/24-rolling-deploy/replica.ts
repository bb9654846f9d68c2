// A pod of one release.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import { openPool } from '../../harness/pool.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting, keyOf41, keyOf42 } from './tempting.ts';

const shop = await shopOfReplica(process.env);
const pool = openPool(process.env['DATABASE_URL'] ?? '');
const billEverybody = process.env['WAY'] === 'fixed' ? fixed : tempting;
await billEverybody(shop, pool, process.env['RELEASE'] === '41' ? keyOf41 : keyOf42);
await pool.end();
