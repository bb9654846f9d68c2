import type { FastifyInstance } from 'fastify';
import { requireWebhookInbox } from '../../db/webhook-events.ts';
import type { Db } from '../../db/database.ts';

export interface HealthDeps {
  readonly db: Db;
}

/** `/healthz`: the process answers. `/readyz`: it can keep what it is given. Both change nothing. */
export function registerHealth(app: FastifyInstance, deps: HealthDeps): void {
  app.get('/healthz', () => ({ ok: true }));
  app.get('/readyz', async (_request, reply) => {
    try {
      await requireWebhookInbox(deps.db);
      return { ok: true };
    } catch {
      return reply.code(503).send({ ok: false });
    }
  });
}
