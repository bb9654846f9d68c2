import type { FastifyReply } from 'fastify';

export interface VaultError {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  /** the field of the body that is wrong */
  readonly param?: string | null;
}

/** Answers with an error of the admin API, in the shape of Stripe's errors and a type of our own. */
export function vaultError(reply: FastifyReply, error: VaultError): FastifyReply {
  const { status, code, message, param } = error;
  return reply.code(status).send({
    error: { type: 'vault_error', code, ...(param == null ? {} : { param }), message },
  });
}
