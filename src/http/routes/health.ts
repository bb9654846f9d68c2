import type { FastifyInstance } from 'fastify';
import { requireWebhookInbox } from '../../db/webhook-events.ts';
import type { Db } from '../../db/database.ts';

export interface HealthDeps {
  readonly db: Db;
  /** whether Temporal answers; absent: nobody asks */
  readonly temporalAnswers?: () => Promise<boolean>;
}

/** Strangers may ask as often as they like: Temporal is asked once in so long. */
const TEMPORAL_ANSWER_GOOD_MS = 5_000;

/**
 * `/healthz`: the process answers. `/readyz`: it can keep what it is given, which needs the database alone; it also says
 * whether Temporal is away. Both change nothing.
 */
export function registerHealth(app: FastifyInstance, deps: HealthDeps): void {
  const { temporalAnswers } = deps;
  const temporal =
    temporalAnswers === undefined ? null : remembered(temporalAnswers, TEMPORAL_ANSWER_GOOD_MS);
  app.get('/healthz', () => ({ ok: true }));
  app.get('/readyz', async (_request, reply) => {
    const ok = await requireWebhookInbox(deps.db).then(
      () => true,
      () => false,
    );
    if (!ok) reply.code(503);
    if (temporal === null) return { ok };
    const answers = await temporal();
    return { ok, database: ok ? 'ok' : 'away', temporal: answers ? 'ok' : 'away' };
  });
}

/** Asks again when the answer is older than that; whoever asks meanwhile shares one question. */
function remembered(ask: () => Promise<boolean>, goodMs: number): () => Promise<boolean> {
  let asked: { readonly answer: Promise<boolean>; readonly atMs: number } | undefined;
  return () => {
    const now = performance.now();
    if (asked === undefined || now - asked.atMs > goodMs) asked = { answer: ask(), atMs: now };
    return asked.answer;
  };
}
