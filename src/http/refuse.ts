import { STATUS_CODES } from 'node:http';
import type { FastifyReply } from 'fastify';

/** An answer that says no more than its status: what went wrong is in the log. */
export function refuse(reply: FastifyReply, status: number): FastifyReply {
  return reply.code(status).send({ error: STATUS_CODES[status] ?? 'Error' });
}
