import { describe, expect, it } from 'vitest';
import { findingsOf } from '../support/lint.ts';

const RANDOM = 'the key is made of randomUUID()';

/** Code that charges twice in some failure, and what is said of it. */
const FOUND: Readonly<Record<string, readonly [code: string, ...said: string[]]>> = {
  'an interceptor of axios': [
    `api.interceptors.request.use((config) => {
       config.headers.set('Idempotency-Key', randomUUID());
       return config;
     });`,
    `error key-in-interceptor: ${RANDOM}, in api.interceptors.request.use(…)`,
  ],
  'a hook of got or ky that runs for each request': [
    `ky.create({
       hooks: { beforeRequest: [(request) => request.headers.set('Idempotency-Key', randomUUID())] },
     });`,
    `error key-in-interceptor: ${RANDOM}, in beforeRequest`,
  ],
  'an interceptor of Angular': [
    `class Keys implements HttpInterceptor {
       intercept(request, next) {
         return next.handle(request.clone({ setHeaders: { 'Idempotency-Key': randomUUID() } }));
       }
     }`,
    `error key-in-interceptor: ${RANDOM}, in intercept`,
  ],
  'an agent of undici that overrides dispatch': [
    `class Keyed extends Agent {
       dispatch(options, handler) {
         options.headers['idempotency-key'] = randomUUID();
         return super.dispatch(options, handler);
       }
     }`,
    `error key-in-interceptor: ${RANDOM}, in dispatch of a Agent`,
  ],
  'an interceptor of undici with raw headers': [
    `const withKey = (dispatch) => (options, handler) =>
       dispatch({ ...options, headers: [...options.headers, 'idempotency-key', randomUUID()] }, handler);`,
    `error key-in-interceptor: ${RANDOM}, in withKey, an interceptor`,
  ],
  'a fetch that is put in the place of the real one': [
    `const real = globalThis.fetch;
     globalThis.fetch = (url, init) => {
       const headers = new Headers(init.headers);
       headers.set('Idempotency-Key', randomUUID());
       return real(url, { ...init, headers });
     };`,
    `error key-in-interceptor: ${RANDOM}, in globalThis.fetch`,
  ],
  'a named function that is given to an interceptor': [
    `function sign(config) {
       return { ...config, headers: { ...config.headers, 'Idempotency-Key': newKey() } };
     }
     const newKey = () => 'k-' + randomUUID();
     api.interceptors.request.use(sign);`,
    `error key-in-interceptor: ${RANDOM} (line 4), in api.interceptors.request.use(…)`,
  ],
  'a header whose name is a constant, only if absent': [
    `const HEADER = 'Idempotency-Key';
     api.interceptors.request.use((config) => {
       config.headers[HEADER] ??= randomUUID();
       return config;
     });`,
    `error key-if-absent: ${RANDOM}, in api.interceptors.request.use(…)`,
  ],
  'a request that gets a key when it has none, wherever that is called': [
    `export function addKey(request) {
       if (request.headers.has('Idempotency-Key')) return request;
       request.headers.set('Idempotency-Key', randomUUID());
       return request;
     }`,
    `warning key-if-absent: ${RANDOM}, where the request has none`,
  ],
  'a retry hook': [
    `got.extend({
       hooks: {
         beforeRetry: [({ options }) => { options.headers['idempotency-key'] = randomUUID(); }],
       },
     });`,
    `error key-in-retry-hook: ${RANDOM}, in beforeRetry`,
  ],
  'the callback of a retry': [
    `await pRetry(async () => {
       const options = { idempotencyKey: randomUUID() };
       return stripe.charges.create({}, options);
     });`,
    `error key-in-retry: ${RANDOM}, in pRetry(…)`,
  ],
  'a policy that executes': [
    `await retryPolicy.execute(() => stripe.charges.create({}, { idempotencyKey: randomUUID() }));`,
    `error key-in-retry: ${RANDOM}, in retryPolicy.execute(…)`,
  ],
  'options that a function makes, in a retried call': [
    `const requestOptions = () => ({ idempotencyKey: randomUUID() });
     const charge = () => retry(() => stripe.charges.create({}, requestOptions()));`,
    `error key-in-retry: ${RANDOM}, in retry(…)`,
  ],
  'a loop that ends at a success': [
    `async function charge(c) {
       for (let i = 0; i < 3; i++) {
         try {
           return await stripe.charges.create({}, { idempotencyKey: randomUUID() });
         } catch {}
       }
     }`,
    `error key-in-retry: ${RANDOM}, in the loop that tries again`,
  ],
  'a loop until it is done': [
    `let done = false;
     while (!done) {
       try {
         await stripe.charges.create({}, { idempotencyKey: randomUUID() });
         done = true;
       } catch {}
     }`,
    `error key-in-retry: ${RANDOM}, in the loop that tries again`,
  ],
  'a retry of their own under any name': [
    `async function robust(work) {
       for (;;) {
         try {
           return await work();
         } catch {}
       }
     }
     const charge = (c) => robust(() => stripe.charges.create({}, { idempotencyKey: randomUUID() }));`,
    `error key-in-retry: ${RANDOM}, in the loop that tries again`,
  ],
  'a function that calls itself after a failure': [
    `async function pay(c, left = 3) {
       try {
         return await fetch('/pay', { method: 'POST', headers: { 'Idempotency-Key': randomUUID() } });
       } catch (error) {
         if (left > 0) return pay(c, left - 1);
         throw error;
       }
     }`,
    `error key-in-retry: ${RANDOM}, in pay, which calls itself again`,
  ],
  'a function that its caller calls again in a catch': [
    `const once = (c) => stripe.charges.create({}, { idempotencyKey: randomUUID() });
     async function charge(c) {
       try {
         return await once(c);
       } catch {
         return once(c);
       }
     }`,
    `error key-in-retry: ${RANDOM}, in once, which is called again when it fails`,
  ],
  'a function that is called again when a time-out wins': [
    `const once = () => stripe.charges.create({}, { idempotencyKey: randomUUID() });
     const charge = () => Promise.race([once(), late()]).catch(() => once());`,
    `error key-in-retry: ${RANDOM}, in once, which is called again when it fails`,
  ],
  'a consumer of Kafka': [
    `consumer.run({
       eachMessage: async () => { await stripe.charges.create({}, { idempotencyKey: randomUUID() }); },
     });`,
    `error key-in-handler: ${RANDOM}, in eachMessage`,
  ],
  'a consumer of AMQP': [
    `channel.consume('q', async (message) => {
       await stripe.charges.create({}, { idempotencyKey: randomUUID() });
       channel.ack(message);
     });`,
    `error key-in-handler: ${RANDOM}, in channel.consume(…)`,
  ],
  'the handler of a cloud function': [
    `export const handler = async (event) => {
       await stripe.charges.create({}, { idempotencyKey: randomUUID() });
     };`,
    `error key-in-handler: ${RANDOM}, in handler`,
  ],
  'a message handler of NestJS': [
    `class Charges {
       @MessagePattern('charge')
       async charge() {
         await this.stripe.charges.create({}, { idempotencyKey: randomUUID() });
       }
     }`,
    `error key-in-handler: ${RANDOM}, in @MessagePattern`,
  ],
  'a connection that opens': [
    `socket.on('connect', () => stripe.charges.create({}, { idempotencyKey: randomUUID() }));`,
    `error key-in-handler: ${RANDOM}, in .on('connect', …)`,
  ],
  'a route, whose client repeats its request': [
    `router.post('/pay', async (req, res) => {
       await stripe.charges.create(req.body, { idempotencyKey: randomUUID() });
     });`,
    `error key-in-handler: ${RANDOM}, in router.post(…)`,
  ],
  'the id of a job that goes back into the queue': [
    `queue.process(async (job) => {
       try {
         await stripe.charges.create({}, { idempotencyKey: job.id });
       } catch {
         await queue.add(job.data);
       }
     });`,
    'error key-from-message: the key is made of job.id, and its handler sends the message again',
  ],
  'the time': [
    `async function charge(c) {
       await stripe.charges.create({}, { idempotencyKey: c.id + '-' + Date.now() });
     }`,
    'error key-from-clock: the key is made of Date.now()',
  ],
  'the time as text, and hashed': [
    `async function charge(c) {
       const text = \`\${c.id}-\${new Date().toISOString()}\`;
       const key = createHash('sha256').update(text).digest('hex');
       await stripe.charges.create({}, { idempotencyKey: key });
     }`,
    'error key-from-clock: the key is made of new Date() (line 2)',
  ],
  'the minute': [
    `const keyOf = (c) => \`\${c.id}-\${Math.floor(Date.now() / 60_000)}\`;
     const charge = (c) => stripe.charges.create({}, { idempotencyKey: keyOf(c) });`,
    'warning key-from-clock: the key is made of Date.now() (line 1), in pieces: a try in the next piece has another key',
  ],
  'the number of the try': [
    `await pRetry((attempt) => stripe.charges.create({}, { idempotencyKey: \`\${c.id}-\${attempt}\` }));`,
    'error key-from-tracing: the key is made of attempt, which counts tries',
  ],
  'the count of a retry library, and of a job': [
    `api.interceptors.request.use((config) => {
       config.headers['Idempotency-Key'] = config.data.id + config['axios-retry'].retryCount;
       return config;
     });
     worker.process((job) => stripe.charges.create({}, { idempotencyKey: c.id + job.attemptsMade }));`,
    "error key-from-tracing: the key is made of config['axios-retry'].retryCount, which counts tries",
    'error key-from-tracing: the key is made of job.attemptsMade, which counts tries',
  ],
  'the id of a request or a trace': [
    `app.post('/pay', async (req) => {
       await stripe.charges.create({}, { idempotencyKey: req.id });
       await stripe.charges.create({}, { idempotencyKey: req.headers['x-request-id'] });
       await stripe.charges.create({}, { idempotencyKey: span.spanContext().traceId });
     });`,
    'error key-from-tracing: the key is made of req.id, which names one request and not the charge',
    "error key-from-tracing: the key is made of req.headers['x-request-id'], which names one request and not the charge",
    'error key-from-tracing: the key is made of span.spanContext().traceId, which names one request and not the charge',
  ],
  'the id of a connection or session': [
    `wss.on('connection', (socket) => {
       stripe.charges.create({}, { idempotencyKey: socket.id });
       const connection = open(socket);
       stripe.charges.create({}, { idempotencyKey: connection.id });
       stripe.charges.create({}, { idempotencyKey: \`\${socket.sessionId}-fee\` });
     });`,
    'error key-from-connection: the key is made of socket.id, which ends with the connection',
    'error key-from-connection: the key is made of connection.id, which ends with the connection',
    'error key-from-connection: the key is made of socket.sessionId, which ends with the connection',
  ],
  'the number of a process, and a counter in it': [
    `let next = 0;
     const charge = (c) => stripe.charges.create({}, { idempotencyKey: c.id + process.pid });
     const again = (c) => stripe.charges.create({}, { idempotencyKey: \`charge-\${next++}\` });`,
    'error key-from-identity: the key is made of process.pid, which belongs to this process or object',
    'error key-from-identity: the key is made of next++, which belongs to this process or object',
  ],
  'a variable that calls at once overwrite': [
    `let key = '';
     export async function handle(message) {
       key = stableKey(message.customer);
       await load(message);
       await stripe.charges.create({}, { idempotencyKey: key });
     }`,
    'error key-in-shared-state: the key is read from key, which every call overwrites (line 3) and awaits before it is sent',
  ],
  'a key that lives as long as its object': [
    `class Command {
       get idempotencyKey() {
         this.#key ??= randomUUID();
         return this.#key;
       }
       #key;
     }
     export async function run(c) {
       const command = new Command();
       await api.post('/pay', {}, { headers: { 'Idempotency-Key': command.idempotencyKey } });
     }`,
    `warning key-from-randomness: ${RANDOM} (line 3)`,
  ],
  'the body of another provider': [
    `async function pay() {
       return client.paymentsApi.createPayment({ sourceId, idempotencyKey: randomUUID() });
     }`,
    `warning key-from-randomness: ${RANDOM}`,
  ],
};

describe('chargeonce lint finds a key made in or of', () => {
  it.each(Object.entries(FOUND))('%s', (_title, [code, ...said]) => {
    expect(findingsOf(code)).toEqual(said);
  });
});

const UNKEYED: Readonly<Record<string, readonly [code: string, said: string]>> = {
  'of the SDK': [
    `async function charge() { await stripe.charges.create({ amount: 1 }); }`,
    'warning stripe-post-without-key: stripe.charges.create(…) has no idempotency key of yours',
  ],
  'of the SDK with options that have no key': [
    `const options = { timeout: 80 };
     const pay = (id) => stripe.invoices.pay(id, {}, options);`,
    'warning stripe-post-without-key: stripe.invoices.pay(…) has no idempotency key of yours',
  ],
  'of a member that is typed as the SDK': [
    `class Billing {
       constructor(private readonly stripe: Stripe) {}
       async start() { await this.stripe.subscriptions.create({ customer }); }
     }`,
    'warning stripe-post-without-key: stripe.subscriptions.create(…) has no idempotency key of yours',
  ],
  'in a retry': [
    `await pRetry(() => stripe.payouts.create({ amount: 1 }));`,
    'error stripe-post-without-key: stripe.payouts.create(…) has no idempotency key of yours, in pRetry(…)',
  ],
  'by fetch': [
    `const body = 'amount=1';
     fetch('https://api.stripe.com/v1/charges', { method: 'POST', headers: { Authorization: key }, body });`,
    'warning stripe-post-without-key: fetch(…) has no idempotency key of yours',
  ],
  'by axios': [
    'const charge = (body) => axios.post(`${base}/v1/payment_intents`, body, { headers: { Authorization: key } });',
    'warning stripe-post-without-key: axios.post(…) has no idempotency key of yours',
  ],
  'by a client that got has made': [
    `const stripe = got.extend({ prefixUrl });
     const charge = (form) => stripe.post('v1/payment_intents', { form });`,
    'warning stripe-post-without-key: stripe.post(…) has no idempotency key of yours',
  ],
};

describe('chargeonce lint finds a request to Stripe without a key', () => {
  it.each(Object.entries(UNKEYED))('%s', (_title, [code, said]) => {
    expect(findingsOf(code)).toEqual([said]);
  });
});
