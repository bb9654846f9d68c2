// An application in plain JavaScript that has the package installed: one POST and its repeat.
import Fastify from 'fastify';
import { idempotency, migrationSql, PostgresIdempotencyStore } from 'chargeonce/idempotency';
import { idempotentFetch, newUserAction } from 'chargeonce/idempotency-client';

/** As much of a store as one request and its repeat need. */
const answers = new Map();
const store = {
  async claim({ key, fingerprint }) {
    const kept = answers.get(key);
    if (kept === undefined) answers.set(key, { fingerprint, response: null });
    if (kept === undefined) return { kind: 'claimed', fence: 1, takenOver: false };
    if (!kept.fingerprint.equals(fingerprint)) return { kind: 'mismatch' };
    return kept.response === null
      ? { kind: 'inFlight' }
      : { kind: 'stored', response: kept.response };
  },
  async complete({ key }, response) {
    answers.get(key).response = response;
    return 'stored';
  },
};

let ran = 0;
const app = Fastify();
await app.register(idempotency, {
  store,
  principal: () => 'tenant',
  policyUrl: 'https://example.test/idempotency',
});
app.post('/orders', async (request, reply) => {
  ran += 1;
  return reply.code(201).send({ ran, underKey: request.idempotency.key });
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });

const send = idempotentFetch();
const action = newUserAction({ key: 'order "1"' });
const bodies = [];
for (let time = 1; time <= 2; time += 1) {
  const answer = await send(`${url}/orders`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: '{"item":"tea"}',
    action,
  });
  bodies.push([answer.status, answer.replayed, await answer.json()]);
}
const unkeyed = await fetch(`${url}/orders`, { method: 'POST' });
await app.close();

process.stdout.write(
  JSON.stringify({
    bodies,
    unkeyed: unkeyed.status,
    store: typeof PostgresIdempotencyStore.prototype.claim,
    sql: migrationSql(),
  }),
);
