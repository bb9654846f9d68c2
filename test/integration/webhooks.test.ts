import { once } from 'node:events';
import { connect } from 'node:net';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase, type Database } from '../../src/db/database.ts';
import {
  claimWebhookEvents,
  finishWebhookEvent,
  postponeWebhookEvent,
  purgeWebhookEvents,
  readWebhookCounts,
} from '../../src/db/webhook-events.ts';
import { BODY_LIMIT_BYTES } from '../../src/http/build-app.ts';
import { signPayload } from '../../src/simulator/webhooks.ts';
import { migratedDatabase, refusedBy } from '../support/engine.ts';
import { slotRef } from '../support/names.ts';
import {
  eventOf,
  inboxText,
  keepingLog,
  post,
  webhookApp,
  WEBHOOK_SECRET,
  type LogLine,
} from '../support/webhooks.ts';

let database: Database;
let app: ReturnType<typeof webhookApp>;
let lines: LogLine[];
let stored: number;

beforeAll(async () => {
  database = openDatabase({
    url: await migratedDatabase(),
    applicationName: 'webhooks test',
    poolSize: 10,
    onError: () => {},
  });
});
beforeEach(async () => {
  const kept = keepingLog();
  ({ lines } = kept);
  stored = 0;
  app = webhookApp({ db: database.db, log: kept.log, onStored: () => (stored += 1) });
  await sql`DELETE FROM webhook_events WHERE state = 'processed'`.execute(database.db);
  await sql`UPDATE webhook_events SET state = 'processed', result = 'ignored', processed_at = now()
    WHERE state <> 'processed'`.execute(database.db);
  await sql`DELETE FROM webhook_events`.execute(database.db);
});
afterEach(() => app.close());
afterAll(() => database.close());

const counts = () => readWebhookCounts(database.db);
const rows = () => database.db.selectFrom('webhook_events').selectAll().execute();

describe('POST /webhooks/stripe', () => {
  it('stores an event before it acknowledges it, and wakes the processor', async () => {
    const answer = await post(
      app,
      eventOf({ id: 'evt_first', slot: slotRef('c1'), intent: 'pi_7' }),
    );
    expect([answer.statusCode, answer.json()]).toEqual([200, { received: true }]);
    expect(await rows()).toMatchObject([
      {
        event_id: 'evt_first',
        type: 'payment_intent.succeeded',
        payment_intent_id: 'pi_7',
        namespace: 'base',
        customer_id: 'c1',
        period: '2026-09',
        state: 'received',
      },
    ]);
    expect(stored).toBe(1);
  });

  it('I15: keeps no personal data, no payload, no foreign key, no secret: in the table and in the log', async () => {
    await post(app, eventOf({ slot: slotRef('c1') }));
    await post(app, eventOf(), { secret: 'whsec_of_somebody_else' });
    await post(app, eventOf({ livemode: true }));
    const kept = (await inboxText(database.db)) + JSON.stringify(lines);
    expect(kept).toContain('"c1"');
    for (const trace of ['jane', 'Jane', '+49', '4242', 'whsec_', 'amount']) {
      expect(kept).not.toContain(trace);
    }
  });

  it.each<[string, Parameters<typeof post>[2], number]>([
    ['signed with another secret', { secret: 'whsec_wrong' }, 400],
    ['signed six minutes ago', { ageSeconds: 360 }, 400],
    ['signed six minutes ahead of our clock', { ageSeconds: -360 }, 400],
    ['signed four minutes ago', { ageSeconds: 240 }, 200],
  ])('answers an event that is %s by its age and secret (%o): %i', async (_what, how, status) => {
    const answer = await post(app, eventOf(), how);
    expect(answer.statusCode).toBe(status);
    expect(answer.json()).toEqual(status === 200 ? { received: true } : { error: 'Bad Request' });
    expect(await rows()).toHaveLength(status === 200 ? 1 : 0);
  });

  it('accepts the old and the new secret during a rotation, and only the new one afterwards', async () => {
    const { log } = keepingLog();
    const during = webhookApp({ db: database.db, log, secrets: ['whsec_new', WEBHOOK_SECRET] });
    const after = webhookApp({ db: database.db, log, secrets: ['whsec_new'] });
    const status = async (to: typeof app, secret: string) =>
      (await post(to, eventOf(), { secret })).statusCode;
    expect(await status(during, WEBHOOK_SECRET)).toBe(200);
    expect(await status(during, 'whsec_new')).toBe(200);
    expect(await status(after, WEBHOOK_SECRET)).toBe(400);
    expect(await status(after, 'whsec_new')).toBe(200);
    await Promise.all([during.close(), after.close()]);
  });

  it('refuses everything when no secret is configured', async () => {
    const kept = keepingLog();
    const closed = webhookApp({ db: database.db, log: kept.log, secrets: [] });
    expect((await post(closed, eventOf())).statusCode).toBe(503);
    expect(kept.lines[0]?.message).toContain('STRIPE_WEBHOOK_SECRETS');
    await closed.close();
    expect(await rows()).toEqual([]);
  });

  it.each([
    ['another mode', { livemode: true }],
    ['a Connect account that is not ours', { account: 'acct_other' }],
  ])('refuses an event of %s and stores nothing', async (_what, parts) => {
    const answer = await post(app, eventOf({ ...parts, slot: slotRef('c1') }));
    expect([answer.statusCode, answer.json()]).toEqual([403, { error: 'Forbidden' }]);
    expect(await rows()).toEqual([]);
    expect(lines.map((line) => line.level)).toEqual(['error']);
  });

  it('takes an event that names our own account, and one of another API version with a note', async () => {
    expect((await post(app, eventOf({ account: 'acct_own' }))).statusCode).toBe(200);
    for (let i = 0; i < 2; i += 1) {
      expect((await post(app, eventOf({ apiVersion: '2020-08-27' }))).statusCode).toBe(200);
    }
    expect(lines.map((line) => line.fields['version'])).toEqual(['2020-08-27']);
    expect(await rows()).toHaveLength(3);
  });

  it('acknowledges a type that nothing follows from, and keeps nothing', async () => {
    expect((await post(app, eventOf({ type: 'customer.updated' }))).statusCode).toBe(200);
    expect(await rows()).toEqual([]);
  });

  it('H5, H6: stores an event once when it comes twenty times in parallel, and answers 200 to all', async () => {
    const event = eventOf({ id: 'evt_twice' });
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(app, event)));
    expect(new Set(answers.map((answer) => answer.statusCode))).toEqual(new Set([200]));
    expect(await rows()).toHaveLength(1);
    expect(stored).toBe(1);
  });

  it('H12: refuses the id of a stored event with another content, and leaves the row as it was', async () => {
    await post(app, eventOf({ id: 'evt_same', intent: 'pi_one' }));
    const before = await rows();
    const answer = await post(app, eventOf({ id: 'evt_same', intent: 'pi_two' }));
    expect(answer.statusCode).toBe(409);
    expect(await rows()).toEqual(before);
  });

  it('H10: answers 503 when the event cannot be stored, and stores it when it comes again', async () => {
    const event = eventOf({ id: 'evt_again' });
    await sql`ALTER TABLE webhook_events ADD CONSTRAINT broken CHECK (event_id <> 'evt_again') NOT VALID`.execute(
      database.db,
    );
    const answer = await post(app, event);
    expect([answer.statusCode, answer.json()]).toEqual([503, { error: 'Service Unavailable' }]);
    expect(stored).toBe(0);
    await sql`ALTER TABLE webhook_events DROP CONSTRAINT broken`.execute(database.db);
    expect((await post(app, event)).statusCode).toBe(200);
    expect(await rows()).toHaveLength(1);
  });

  it('H10: answers 5xx and not ready while the database is away', async () => {
    const gone = openDatabase({
      url: 'postgres://nobody:x@127.0.0.1:1/none',
      applicationName: 'webhooks test',
      onError: () => {},
    });
    const { log } = keepingLog();
    const lost = webhookApp({ db: gone.db, log });
    expect((await post(lost, eventOf())).statusCode).toBe(503);
    expect((await lost.inject('/readyz')).statusCode).toBe(503);
    expect((await lost.inject('/healthz')).statusCode).toBe(200);
    await lost.close();
    await gone.close();
  });

  it('answers 413 to a body over the limit and reads no further', async () => {
    const largest = eventOf().padEnd(BODY_LIMIT_BYTES, ' ');
    expect((await post(app, largest)).statusCode).toBe(200);
    const answer = await post(app, `${largest} `);
    expect([answer.statusCode, answer.json()]).toEqual([413, { error: 'Payload Too Large' }]);
  });

  it('bounds how many a second it verifies, before it reads the body', async () => {
    const { log } = keepingLog();
    const limits = { concurrent: 8, perSecond: 0.001, burst: 2 };
    const tight = webhookApp({ db: database.db, log, limits });
    const answers = [];
    for (let i = 0; i < 3; i += 1) answers.push((await post(tight, eventOf())).statusCode);
    expect(answers).toEqual([200, 200, 429]);
    expect((await tight.inject('/healthz')).statusCode).toBe(200);
    await tight.close();
  });

  it('gives the place of a client that goes away in the middle of its body to the next', async () => {
    const { log } = keepingLog();
    const limits = { concurrent: 2, perSecond: 1_000, burst: 1_000 };
    const narrow = webhookApp({ db: database.db, log, limits });
    const url = await narrow.listen({ host: '127.0.0.1', port: 0 });
    const send = async () => {
      const body = eventOf();
      const signature = signPayload(body, WEBHOOK_SECRET, Math.floor(Date.now() / 1000));
      const headers = { 'stripe-signature': signature };
      return (await fetch(`${url}/webhooks/stripe`, { method: 'POST', body, headers })).status;
    };
    const slow = [0, 1].map(() => connect(Number(new URL(url).port), '127.0.0.1'));
    for (const socket of slow) {
      await once(socket, 'connect');
      socket.write('POST /webhooks/stripe HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{');
    }
    await expect.poll(send).toBe(503);
    for (const socket of slow) socket.destroy();
    await expect.poll(send).toBe(200);
    const statuses = [];
    for (let i = 0; i < 20; i += 1) statuses.push(await send());
    expect(new Set(statuses)).toEqual(new Set([200]));
    await narrow.close();
  });

  it('gives nobody longer than the time-outs of docs/security.md', () => {
    expect(app.server.headersTimeout).toBe(10_000);
    expect(app.server.requestTimeout).toBe(20_000);
    expect(app.server.maxRequestsPerSocket).toBe(1_000);
    expect(app.server.maxConnections).toBe(512);
  });

  it('says nothing about itself where nothing is: 404 without a stack', async () => {
    const answer = await app.inject({ method: 'GET', url: '/webhooks/stripe' });
    expect([answer.statusCode, answer.json()]).toEqual([404, { error: 'Not Found' }]);
    expect((await app.inject('/readyz')).json()).toEqual({ ok: true });
  });
});

describe('the inbox', () => {
  const claim = (limit = 10, leaseMs = 60_000) =>
    claimWebhookEvents(database.db, { limit, leaseMs });
  const fill = async (count: number) => {
    for (let i = 0; i < count; i += 1) await post(app, eventOf());
  };

  it('gives each event to one of several processors that claim at once', async () => {
    await fill(12);
    const claimed = (await Promise.all([claim(5), claim(5), claim(5)])).flat();
    expect(claimed).toHaveLength(12);
    expect(new Set(claimed.map((event) => event.eventId)).size).toBe(12);
    expect(await claim()).toEqual([]);
  });

  it('gives an event to another processor when a lease runs out, and takes nothing more from the first', async () => {
    await fill(1);
    const [first] = await claim(10, 0);
    const [second] = await claim(10, 60_000);
    if (first === undefined || second === undefined) throw new Error('nothing was claimed');
    expect(second).toMatchObject({ eventId: first.eventId, attempt: 2 });
    expect(await finishWebhookEvent(database.db, first, 'ignored')).toBe(false);
    await postponeWebhookEvent(database.db, first, { state: 'parked', pauseMs: 0, error: 'late' });
    expect(await rows()).toMatchObject([{ state: 'received', last_error: null }]);
    expect(await finishWebhookEvent(database.db, second, 'looked')).toBe(true);
    expect(await finishWebhookEvent(database.db, second, 'ignored')).toBe(false);
    expect(await rows()).toMatchObject([{ state: 'processed', result: 'looked' }]);
  });

  it('C4: purges old processed events in batches, and never one that waits, however old', async () => {
    await fill(5);
    const [parked, received, ...done] = await claim();
    if (parked === undefined || received === undefined) throw new Error('nothing was claimed');
    await postponeWebhookEvent(database.db, parked, { state: 'parked', pauseMs: 0, error: null });
    for (const event of done) await finishWebhookEvent(database.db, event, 'ignored');
    expect(await counts()).toMatchObject({ received: 1, parked: 1, processed: 3 });
    expect((await counts()).oldestWaiting).toBeInstanceOf(Date);
    const purge = (olderThanDays: number) =>
      purgeWebhookEvents(database.db, { olderThanDays, limit: 2 });
    expect(await purge(1)).toBe(0);
    expect([await purge(0), await purge(0), await purge(0)]).toEqual([2, 1, 0]);
    expect(await counts()).toMatchObject({ received: 1, parked: 1, processed: 0 });
  });

  it('C4: refuses in the database to delete an event that is not processed', async () => {
    await fill(1);
    const deleted = sql`DELETE FROM webhook_events`.execute(database.db);
    expect(await refusedBy(deleted)).toBe('webhook_kept_until_processed');
  });

  it('H11: refuses in the database to process an event again, or to change what it said', async () => {
    await fill(1);
    const changed = sql`UPDATE webhook_events SET type = 'charge.failed'`.execute(database.db);
    expect(await refusedBy(changed)).toBe('webhook_event_is_frozen');
    const [event] = await claim();
    if (event === undefined) throw new Error('nothing was claimed');
    await finishWebhookEvent(database.db, event, 'ignored');
    const again = sql`UPDATE webhook_events SET result = 'looked'`.execute(database.db);
    expect(await refusedBy(again)).toBe('webhook_processed_once');
  });
});
