import { randomUUID } from 'node:crypto';
import http, { type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Shop } from '../../harness/exhibit.ts';
import { chargeForm } from '../../harness/payment-form.ts';

interface Post {
  readonly url: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string;
}

const agent = new http.Agent({ keepAlive: true });

/** Every request passes here, so no charge goes out without a key. */
function intercept(post: Post): Post {
  return { ...post, headers: { ...post.headers, 'Idempotency-Key': randomUUID() } };
}

/** A pooled connection may be dead already. Then it sends on another one, as Node's manual has it. */
function send(post: Post): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const { url, headers, body } = intercept(post);
  const request = http.request(url, { agent, method: 'POST', headers }, resolve);
  request.on('error', (error: NodeJS.ErrnoException) => {
    if (request.reusedSocket && error.code === 'ECONNRESET') resolve(send(post));
    else reject(error);
  });
  request.end(body);
  return promise;
}

export async function billEverybody(shop: Shop): Promise<void> {
  for (const customer of shop.customers) {
    const response = await send({
      url: `${shop.stripeUrl}/v1/payment_intents`,
      headers: {
        Authorization: `Bearer ${shop.apiKey}`,
        'Content-Type': 'application/x-www-form-urlencoded',
      },
      body: chargeForm(customer),
    });
    const answer = await text(response);
    if (response.statusCode !== 200) throw new Error(answer);
  }
}
