// Bugs to plant in the gateway, so that a test can see the simulation fail.
import type { PaymentGateway, SendReply } from '../../src/payments/gateway.ts';

type Plant = (gateway: PaymentGateway) => PaymentGateway;

export const PLANTS: Readonly<Record<string, Plant>> = { keyPerSend, lostMeansDeclined };

/** The gateway with the named bug in it, or as it is. */
export function plantIn(gateway: PaymentGateway, name: string | undefined): PaymentGateway {
  if (name === undefined) return gateway;
  const plant = PLANTS[name];
  if (plant === undefined) throw new Error(`no such bug to plant: ${name}`);
  return plant(gateway);
}

/** Every send goes out under a key of its own. */
function keyPerSend(gateway: PaymentGateway): PaymentGateway {
  const own = <T extends { idempotencyKey: string; attemptId: string }>(send: T): T => ({
    ...send,
    idempotencyKey: `${send.idempotencyKey}.${send.attemptId}`,
  });
  return {
    ...gateway,
    createPaymentIntent: (send) => gateway.createPaymentIntent(own(send)),
    confirmPaymentIntent: (id, send) => gateway.confirmPaymentIntent(id, own(send)),
  };
}

/** A confirm without an answer is taken for a refusal. */
function lostMeansDeclined(gateway: PaymentGateway): PaymentGateway {
  return {
    ...gateway,
    async confirmPaymentIntent(id, send): Promise<SendReply> {
      const reply = await gateway.confirmPaymentIntent(id, send);
      if (reply.kind !== 'lost') return reply;
      const { answer } = reply;
      const refusal = {
        status: 402,
        type: 'card_error',
        code: 'card_declined',
        declineCode: 'generic_decline',
        adviceCode: null,
        message: null,
        shouldRetry: null,
        retryAfterMs: null,
        paymentIntent: null,
      };
      return { kind: 'refused', refusal, answer };
    },
  };
}
