import pRetry from 'p-retry';
import type { Customer } from '../harness/exhibit.ts';
import { stableKey } from '../harness/stable-key.ts';

const TRIES = { retries: 6, minTimeout: 10, maxTimeout: 100 };

/**
 * A client as it should be: one key for the order, made before the first send, and the same one for each try. What it
 * does not get an answer to, is told to wait for, or is answered with a 5xx, it sends again. Answers the last status;
 * `patience` is how long the first try may take.
 */
export async function pay(
  url: string,
  customer: Customer,
  patience: AbortSignal | null = null,
): Promise<number> {
  const key = stableKey('order', customer.id);
  let status = 0;
  const send = async (attempt: number): Promise<void> => {
    const answer = await fetch(`${url}/charges`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ customer: customer.id }),
      signal: attempt === 1 ? patience : null,
    });
    ({ status } = answer);
    await answer.text();
    if (status === 409 || status >= 500) throw new Error(`answered ${status}`);
  };
  // It gives up in the end, as clients do; who was charged by then is the ledger's to say.
  await pRetry(send, TRIES).catch(() => {});
  return status;
}
