// One of three replicas, in which the job starts at the same time.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import { billEverybody } from './tempting.ts';

const shop = await shopOfReplica(process.env);
try {
  await billEverybody(shop);
} catch {
  // Refused, as it should be: the run of this replica is over.
  process.exitCode = 1;
}
