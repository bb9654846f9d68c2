// A process that spends under a vault key until it is killed: DATABASE_URL, key id and a name of its own as arguments.
// Says one line per request. Most answers are written down, some never come, as when the process dies before them.
import { openDatabase } from '../../src/db/database.ts';
import { beginForward, finishForward } from '../../src/db/vault-ledger.ts';
import { createOf, DECLINED, finishOf, SUCCEEDED } from './vault-orders.ts';

const [url = '', keyId = '', name = ''] = process.argv.slice(2);
const { db } = openDatabase({ url, applicationName: 'spender', poolSize: 6, onError: () => {} });

async function spend(lane: number): Promise<never> {
  for (let n = 0; ; n += 1) {
    const order = createOf(keyId, `${name}-${lane}-${n}`);
    const { decision } = await beginForward(db, order);
    if (decision === 'forward' && n % 5 !== 4) {
      const objectId = `pi_${name}_${lane}_${n}`;
      const answer = n % 5 === 3 ? DECLINED : SUCCEEDED;
      await finishForward(db, finishOf(order.requestId, { ...answer, objectId }));
    }
    process.stdout.write(`${decision}\n`);
  }
}

await Promise.all(Array.from({ length: 6 }, (_, lane) => spend(lane)));
