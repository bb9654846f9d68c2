import { usesSimulator, type Config } from '../config.ts';
import { WEBHOOK_TYPES } from '../http/webhooks/decide.ts';
import { Secret } from '../secret.ts';

/** Signs the events of the built-in simulator, whose money is not real. */
const SIMULATOR_SECRET = 'whsec_chargeonce_simulator';

const TIMEOUT_MS = 5_000;

/** The secrets a server accepts: the configured ones, else the simulator's when it stands in for Stripe. */
export function webhookSecretsOf(config: Config): readonly Secret[] {
  if (config.STRIPE_WEBHOOK_SECRETS !== undefined) return config.STRIPE_WEBHOOK_SECRETS;
  return usesSimulator(config) ? [new Secret(SIMULATOR_SECRET)] : [];
}

/** Has the simulator send its events to a server. Twice: the later address holds. */
export async function subscribeToSimulator(to: {
  readonly simulatorUrl: string;
  readonly serverUrl: string;
  readonly secret: Secret;
}): Promise<void> {
  const response = await fetch(`${to.simulatorUrl}/_sim/webhooks`, {
    method: 'POST',
    signal: AbortSignal.timeout(TIMEOUT_MS),
    body: JSON.stringify({
      url: `${to.serverUrl}/webhooks/stripe`,
      secret: to.secret.reveal(),
      types: WEBHOOK_TYPES,
    }),
  });
  await response.arrayBuffer();
  if (!response.ok)
    throw new Error(`the simulator refused the webhook endpoint: ${response.status}`);
}
