// The load in a process of its own: prints `{"measuring":true}` when the warm-up is over, and what it saw at the end.
import { Command, Option } from '@commander-js/extra-typings';
import autocannon from 'autocannon';
import { createHash, randomUUID } from 'node:crypto';

/** Few enough to be answered before the measurement, many enough that no row is hot. */
const KNOWN_KEYS = 1_000;

const options = new Command('load')
  .requiredOption('--url <url>')
  .addOption(new Option('--keys <kind>').choices(['new', 'known'] as const).makeOptionMandatory())
  .option('--once', 'send every known key once, and nothing else')
  .requiredOption('--connections <n>', '', Number)
  .requiredOption('--warm-up <seconds>', '', Number)
  .requiredOption('--seconds <n>', '', Number)
  .parse()
  .opts();

let next = 0;
const key = options.keys === 'new' ? (): string => randomUUID() : nextKnown;

const before = options.once === true ? undefined : await send({ duration: options.warmUp });
process.stdout.write('{"measuring":true}\n');
const { requests, ...result } = await send(
  options.once === true ? { amount: KNOWN_KEYS } : { duration: options.seconds },
);
process.stdout.write(
  `${JSON.stringify({
    sent: (before?.requests.sent ?? 0) + requests.sent,
    measured: requests.total,
    seconds: result.duration,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    refused: result.non2xx + result.errors,
  })}\n`,
);

/** The same ones in every process, and as scattered as new ones. */
function nextKnown(): string {
  next += 1;
  return createHash('sha256')
    .update(String(next % KNOWN_KEYS))
    .digest('base64url')
    .slice(0, 36);
}

async function send(until: { amount: number } | { duration: number }): Promise<autocannon.Result> {
  return autocannon({
    url: `${options.url}/charges`,
    connections: options.connections,
    ...until,
    requests: [
      {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"customer":"cus_1","amount":4200,"currency":"usd"}',
        setupRequest: (request) => ({
          ...request,
          headers: { ...request.headers, 'idempotency-key': key() },
        }),
      },
    ],
  });
}
