import { usesSimulator, type Config } from '../config.ts';
import { openDatabase } from '../db/database.ts';
import { readWebhookCounts } from '../db/webhook-events.ts';
import type { Check } from './health.ts';

/** An event waits seconds when a server runs, also when its customer is being charged. */
const WAITS_TOO_LONG_MS = 15 * 60_000;

/** Whether webhooks can be received, and whether somebody processes those that were. Changes nothing. */
export async function checkWebhooks(config: Config): Promise<Check[]> {
  const name = 'webhooks';
  if (config.STRIPE_WEBHOOK_SECRETS === undefined) {
    if (usesSimulator(config))
      return [{ name, state: 'ok', found: 'not configured: from the built-in simulator' }];
    return [
      {
        name,
        state: 'warn',
        found: 'STRIPE_WEBHOOK_SECRETS is not set: refused',
        mend: 'optional: set it and run "chargeonce server" (docs/operations.md, "Webhooks")',
      },
    ];
  }
  const secrets = `${config.STRIPE_WEBHOOK_SECRETS.length} signing secrets`;
  if (config.DATABASE_URL === undefined) return [{ name, state: 'ok', found: secrets }];
  const database = openDatabase({
    url: config.DATABASE_URL.reveal(),
    applicationName: 'chargeonce doctor',
    poolSize: 1,
    onError: () => {},
  });
  try {
    const { received, parked, oldestReceived } = await readWebhookCounts(database.db);
    const found = `${secrets}, ${received} events waiting, ${parked} parked`;
    const since = oldestReceived?.getTime() ?? Number.POSITIVE_INFINITY;
    if (Date.now() - since < WAITS_TOO_LONG_MS || oldestReceived === null)
      return [{ name, state: 'ok', found }];
    const mend = `the oldest waits since ${oldestReceived.toISOString()}: start "chargeonce server", or see its log`;
    return [{ name, state: 'warn', found, mend }];
  } catch {
    // Why the database cannot be read says the check of PostgreSQL.
    return [{ name, state: 'ok', found: secrets }];
  } finally {
    await database.close();
  }
}
