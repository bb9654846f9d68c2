// One of three replicas, in which the job starts at the same time.
import { shopOfReplica } from '../../harness/tempting-world.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

const billEverybody = process.env['WAY'] === 'fixed' ? fixed : tempting;
await billEverybody(await shopOfReplica(process.env));
