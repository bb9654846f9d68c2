import { describe, expect, it } from 'vitest';
import { findingsOf } from '../support/lint.ts';

/** Code that is right, or that nobody can tell from right code. A check that cries wolf is switched off. */
const CLEAN: Readonly<Record<string, string>> = {
  'a key that comes as a parameter': `
    export async function pay(amount, idempotencyKey) {
      return pRetry(() =>
        fetch('https://api.stripe.com/v1/charges', {
          method: 'POST',
          headers: { 'Idempotency-Key': idempotencyKey },
        }),
      );
    }`,
  'a key derived from what is charged, in a retried call': `
    await pRetry(() =>
      stripe.refunds.create({ charge: c.id }, { idempotencyKey: stableKey('refund', c.id, period) }),
    );`,
  'a hash of the business': `
    const key = createHash('sha256').update(customer.id + ':' + period).digest('hex');
    await stripe.charges.create({}, { idempotencyKey: key });`,
  'a UUID of version 5, which is a hash': `
    import { v5 } from 'uuid';
    const keyOf = (charge) => v5(charge.id, NAMESPACE);
    boss.work('q', async ([job]) => {
      await stripe.charges.create({}, { idempotencyKey: keyOf(job.data) });
    });`,
  'a random key that is made once, outside of the retry': `
    async function pay(c) {
      const key = randomUUID();
      await pRetry(() => stripe.refunds.create({}, { idempotencyKey: key }));
    }`,
  'a random key that is written to a row before the send': `
    async function charge(order) {
      const key = randomUUID();
      await db.insertInto('keys').values({ order: order.id, key }).execute();
      await stripe.paymentIntents.create({}, { idempotencyKey: key });
    }`,
  'a random key that is offered to a store, which gives the first one back': `
    async function charge(o) {
      const key = await keys.getOrCreate(o.id, randomUUID());
      await stripe.charges.create({}, { idempotencyKey: key });
    }`,
  'a key out of the order, or else assigned to it': `
    async function charge(order) {
      const idempotencyKey = order.idempotencyKey ?? (await orders.assignKey(order.id, randomUUID()));
      await stripe.charges.create({}, { idempotencyKey });
    }`,
  'a key read back from a row, in a route': `
    app.post('/pay', async (req, res) => {
      const row = await db.selectFrom('orders').where('id', '=', req.body.id).executeTakeFirst();
      await stripe.charges.create({ amount: 1 }, { idempotencyKey: row.key });
    });`,
  'a column of a row with a random key': `
    async function createPayment(o) {
      return prisma.payment.create({ data: { id: o.id, idempotencyKey: crypto.randomUUID() } });
    }`,
  'a model of an ORM with a random key': `
    async function create() {
      const payment = new Payment();
      payment.idempotencyKey = randomUUID();
      await payment.save();
      await knex('orders').insert({ id, idempotency_key: uuidv4() });
      await Order.findOneAndUpdate({ id }, { $setOnInsert: { idempotencyKey: randomUUID() } });
    }`,
  'a random key that travels in a job': `
    app.post('/pay', async (req, res) => {
      await queue.add('charge', { order: req.body.id, idempotencyKey: randomUUID() });
    });`,
  'a random key kept in the storage of a browser': `
    function startCheckout() {
      let key = sessionStorage.getItem('key');
      if (!key) {
        key = crypto.randomUUID();
        sessionStorage.setItem('key', key);
      }
      return fetch('/pay', { method: 'POST', headers: { 'Idempotency-Key': key } });
    }`,
  'a random key for each order, remembered in a map': `
    const keys = new Map();
    function keyOf(order) {
      let key = keys.get(order.id);
      if (!key) {
        key = randomUUID();
        keys.set(order.id, key);
      }
      return key;
    }
    const run = (order) => pRetry(() => stripe.charges.create({}, { idempotencyKey: keyOf(order) }));`,
  'the key of the caller, passed on by a route': `
    app.post('/pay', async (req, res) => {
      const key = req.headers['idempotency-key'];
      await stripe.charges.create(req.body, { idempotencyKey: key });
    });`,
  'the id of a job whose handler does not send it again': `
    new Worker('charges', async (job) => {
      await stripe.charges.create(job.data, { idempotencyKey: job.id });
    });`,
  'the id of a message, in the handler of a cloud function': `
    export async function handler(event) {
      for (const record of event.Records)
        await stripe.charges.create({}, { idempotencyKey: record.messageId });
    }`,
  'the id of an event of Stripe': `
    app.post('/hook', async (req, res) => {
      const event = req.body;
      await stripe.refunds.create({}, { idempotencyKey: 'refund-' + event.id });
    });`,
  'the id of a checkout session': `
    async function done(session) {
      const options = { idempotencyKey: 'capture-' + session.id };
      await stripe.paymentIntents.capture(session.payment_intent, {}, options);
    }`,
  "the id of the caller's request, as a parameter": `
    export async function order(requestId, body) {
      await stripe.charges.create(body, { idempotencyKey: requestId });
    }`,
  'ids of what only sounds like a connection, session or request': `
    export async function settle(connection, channel, sessionId, channelId, requests) {
      await stripe.transfers.create({}, { idempotencyKey: \`bank-\${connection.id}\` });
      await stripe.transfers.create({}, { idempotencyKey: \`shop-\${channel.id}-\${channelId}\` });
      await stripe.refunds.create({}, { idempotencyKey: \`checkout-\${sessionId}\` });
      for (const request of requests)
        await stripe.refunds.create({}, { idempotencyKey: request.id + request.requestId });
    }`,
  'a request that is an order': `
    export async function refund(request: RefundOrder) {
      await stripe.refunds.create({}, { idempotencyKey: request.requestId });
    }`,
  'keys that a component of React holds': `
    function Pay() {
      const [key] = useState(() => crypto.randomUUID());
      const other = useMemo(() => crypto.randomUUID(), []);
      const ref = useRef(crypto.randomUUID());
      const pay = (key) => fetch('/pay', { method: 'POST', headers: { 'Idempotency-Key': key } });
      return [pay(key), pay(other), pay(ref.current)];
    }`,
  'the times of a row, and a period that parts of a date make': `
    async function bill(order) {
      const now = new Date();
      const month = \`\${now.getFullYear()}-\${now.getMonth() + 1}\`;
      const day = now.toISOString().split('T')[0];
      await stripe.charges.create({}, { idempotencyKey: \`\${order.id}-\${month}-\${day}\` });
      await stripe.charges.create({}, { idempotencyKey: order.id + order.createdAt.toISOString() });
      await stripe.charges.create({}, { idempotencyKey: order.id + new Date(order.due).getTime() });
      await stripe.charges.create({}, { idempotencyKey: order.id + dayjs().format('YYYY-MM') });
    }`,
  'a generation, and the declines that an invoice counts': `
    await stripe.paymentIntents.confirm(id, {}, { idempotencyKey: keyFor(slot, generation) });
    await stripe.invoices.pay(id, {}, { idempotencyKey: \`\${invoice.id}-\${invoice.retryCount}\` });`,
  'the month of a time': `
    const period = new Date().toISOString().slice(0, 7);
    await stripe.charges.create({}, { idempotencyKey: \`\${c.id}-\${period}\` });`,
  'the month of a time, formatted': `
    import { format } from 'date-fns';
    async function charge(c) {
      const idempotencyKey = \`\${c.id}-\${format(new Date(), 'yyyy-MM')}\`;
      await stripe.charges.create({}, { idempotencyKey });
    }`,
  'the place of an item in a list': `
    for (let i = 0; i < items.length; i++) {
      try {
        await stripe.charges.create({}, { idempotencyKey: \`\${run.id}-\${i}\` });
      } catch {
        failed.push(i);
      }
    }`,
  'a clock and a counter beside the key': `
    async function charge(c) {
      for (let attempt = 0; attempt < 3; attempt++) {
        try {
          return await stripe.charges.create({}, { idempotencyKey: c.key, timeout: attempt * 1000 });
        } catch {
          log(Date.now());
        }
      }
    }`,
  'a random id of the try, in an interceptor': `
    client.interceptors.request.use((config) => {
      config.headers['X-Attempt-Id'] = randomUUID();
      config.headers['X-Note'] = 'not the Idempotency-Key';
      return config;
    });`,
  'a key handed to an object when it is made': `
    class Charge {
      constructor(key) {
        this.key = key;
      }
      send() {
        return pRetry(() => stripe.charges.create({}, { idempotencyKey: this.key }));
      }
    }`,
  'a builder that holds its key': `
    class Request {
      #key = '';
      withKey(key) {
        this.#key = key;
        return this;
      }
      async send() {
        return stripe.charges.create({}, { idempotencyKey: this.#key });
      }
    }`,
  'a schema or a document that names the header': `
    const schema = { 'Idempotency-Key': z.string().uuid() };
    const headers = { 'Idempotency-Key': { type: 'string' } };
    const Payment = sequelize.define('P', {
      idempotencyKey: { type: DataTypes.UUID, defaultValue: () => randomUUID() },
    });`,
  'calls of Stripe that read, or that move no money': `
    stripe.paymentIntents.retrieve(id);
    stripe.charges.list({});
    stripe.customers.create({ email });
    fetch('https://api.stripe.com/v1/charges?limit=1', { method: 'GET' });`,
  'a Stripe call whose options come from elsewhere': `
    async function charge(params, options) {
      await stripe.charges.create(params, options);
      await stripe.charges.create(params, { ...options, timeout: 80 });
    }`,
  'resources of the same name in another SDK': `
    battery.charges.create({});
    rest.payouts.create(1);`,
};

describe('chargeonce lint finds nothing in', () => {
  it.each(Object.entries(CLEAN))('%s', (_title, code) => {
    expect(findingsOf(code)).toEqual([]);
  });
});
