// One of two processes that wait for the lock. It bills one customer.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import { openPool } from '../../harness/pool.ts';
import { billEverybody as fixed } from './fixed.ts';
import { withLockOfSession } from './locks.ts';
import { billEverybody as tempting } from './tempting.ts';

const shop = await shopOfReplica(process.env);
const customers = shop.customers.filter(({ id }) => id === process.env['CUSTOMER']);
const pool = openPool(process.env['DATABASE_URL'] ?? '');
const billEverybody = process.env['WAY'] === 'fixed' ? fixed : tempting;
await billEverybody({ ...shop, customers }, pool, withLockOfSession);
await pool.end();
