import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FaultPlan, WebhookOptions } from './options.ts';
import { ledgerEntries, ledgerGroups } from './ledger.ts';
import type { LedgerEntry, LedgerFilter } from './ledger.ts';
import type { RequestEntry } from './request-log.ts';
import type { Store } from './store.ts';
import type { Delivery, DeliverOptions } from './webhooks.ts';

/** What the control API can do; the in-process handles of a test are the same functions. */
export interface ControlActions {
  readonly store: Store;
  readonly requests: (afterSeq: number, limit: number) => RequestEntry[];
  readonly counters: () => object;
  readonly setFaults: (plan: FaultPlan | undefined) => void;
  readonly nowMs: () => number;
  readonly advanceClock: (ms: number) => void;
  readonly reset: () => void;
  readonly setWebhook: (options: WebhookOptions | undefined) => void;
  readonly deliveries: () => readonly Delivery[];
  readonly deliver: (how: DeliverOptions) => Promise<Delivery[]>;
}

export interface ControlRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly path: string;
  readonly query: string;
  readonly body: Buffer;
}

const REQUEST_PAGE = 10_000;
// Written at once, so that a large ledger needs neither one huge string nor one write per entry.
const CHUNK_CHARACTERS = 64 * 1024;

/** `/_sim/…`: for tests, auditors and operators of the simulator. Not part of Stripe, not rate limited, never faulty. */
export class Control {
  readonly #actions: ControlActions;

  constructor(actions: ControlActions) {
    this.#actions = actions;
  }

  async handle(request: ControlRequest): Promise<void> {
    const { req, res, path } = request;
    try {
      const answer = await this.#answer(request);
      if (answer !== undefined) respond(res, 200, answer);
    } catch (error) {
      const known =
        error instanceof SyntaxError || error instanceof TypeError || error instanceof RangeError;
      if (!known) throw error;
      respond(res, 400, { error: error.message, at: `${req.method ?? ''} ${path}` });
    }
  }

  async #answer({ req, res, path, query, body }: ControlRequest): Promise<object | undefined> {
    const actions = this.#actions;
    const params = new URLSearchParams(query);
    switch (`${req.method ?? ''} ${path}`) {
      case 'GET /_sim/health':
        return { ok: true, now: new Date(actions.nowMs()).toISOString() };
      case 'GET /_sim/ledger':
        await writeLedger(res, actions.store, params);
        return undefined;
      case 'GET /_sim/requests':
        return this.#requests(params);
      case 'GET /_sim/counters':
        return actions.counters();
      case 'POST /_sim/faults':
        actions.setFaults(readPlan(body));
        return { ok: true };
      case 'GET /_sim/clock':
        return { nowMs: actions.nowMs() };
      case 'POST /_sim/clock':
        actions.advanceClock(readAdvance(body));
        return { nowMs: actions.nowMs() };
      case 'POST /_sim/reset':
        actions.reset();
        return { ok: true };
      case 'GET /_sim/webhooks':
        return { deliveries: actions.deliveries() };
      case 'POST /_sim/webhooks':
        actions.setWebhook(readWebhook(body));
        return { ok: true };
      case 'POST /_sim/webhooks/deliver':
        return { deliveries: await actions.deliver(readJson(body)) };
      default:
        respond(res, 404, { error: `no such control endpoint: ${path}` });
        return undefined;
    }
  }

  #requests(params: URLSearchParams): object {
    const limit = readCount(params, 'limit') ?? REQUEST_PAGE;
    const found = this.#actions.requests(readCount(params, 'after') ?? 0, limit + 1);
    const requests = found.slice(0, limit);
    const hasMore = found.length > limit;
    return { requests, has_more: hasMore, next: hasMore ? (requests.at(-1)?.seq ?? null) : null };
  }
}

function respond(res: ServerResponse, status: number, value: object): void {
  const body = Buffer.from(JSON.stringify(value));
  res.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': String(body.length),
  });
  res.end(body);
}

function readJson(body: Buffer): Record<string, unknown> {
  if (body.length === 0) return {};
  const value: unknown = JSON.parse(body.toString('utf8'));
  if (typeof value !== 'object' || value === null) throw new TypeError('a JSON object is expected');
  return { ...value };
}

function readPlan(body: Buffer): FaultPlan | undefined {
  const { seed, rules } = readJson(body);
  if (rules === undefined) return undefined;
  if (!Array.isArray(rules)) throw new TypeError('rules must be a list');
  // Faults.set checks the rules themselves, for this door and for the in-process one.
  return { rules, ...(typeof seed === 'number' ? { seed } : {}) };
}

function readWebhook(body: Buffer): WebhookOptions | undefined {
  const { url, secret, ...rest } = readJson(body);
  if (url === undefined) return undefined;
  if (typeof url !== 'string' || typeof secret !== 'string') {
    throw new TypeError('a webhook needs url and secret');
  }
  return { ...rest, url: new URL(url).href, secret };
}

function readAdvance(body: Buffer): number {
  const { advanceMs } = readJson(body);
  if (typeof advanceMs !== 'number' || !(advanceMs >= 0)) {
    throw new TypeError('advanceMs must be a number of milliseconds, 0 or more');
  }
  return advanceMs;
}

function readCount(params: URLSearchParams, name: string): number | undefined {
  const value = params.get(name);
  if (value === null) return undefined;
  if (!/^\d{1,9}$/.test(value)) throw new TypeError(`${name} must be a whole number`);
  return Number(value);
}

/**
 * `{entries, groups, has_more, next}`, streamed. `limit` and `after` (a PaymentIntent id) page the entries; the groups are
 * always of the whole filter and come with the first page only. `entries=0` leaves the entries out.
 */
async function writeLedger(
  res: ServerResponse,
  store: Store,
  params: URLSearchParams,
): Promise<void> {
  const limit = params.get('entries') === '0' ? 0 : (readCount(params, 'limit') ?? Infinity);
  const text = ledgerText(store, readFilter(params), { limit, after: params.get('after') });
  res.writeHead(200, { 'Content-Type': 'application/json' });
  try {
    await pipeline(Readable.from(chunked(text)), res);
  } catch (error) {
    // The reader has gone away in the middle, which is its right.
    if (!res.destroyed) throw error;
  }
}

function* ledgerText(
  store: Store,
  filter: LedgerFilter,
  page: { readonly limit: number; readonly after: string | null },
): Generator<string> {
  let written = 0;
  let more = false;
  let last: string | null = null;
  yield '{"entries":[';
  for (const entry of ledgerEntries(store, filter, page.after)) {
    if (written >= page.limit) {
      more = page.limit > 0;
      break;
    }
    yield (written === 0 ? '' : ',') + JSON.stringify(entry);
    written += 1;
    last = entry.paymentIntent;
  }
  yield '],"groups":[';
  const groups = page.after === null ? ledgerGroups(ledgerEntries(store, filter)) : [];
  for (const [index, group] of groups.entries()) {
    yield (index === 0 ? '' : ',') + JSON.stringify(group);
  }
  yield `],"has_more":${more},"next":${JSON.stringify(more ? last : null)}}`;
}

function* chunked(parts: Iterable<string>): Generator<string> {
  let text = '';
  for (const part of parts) {
    text += part;
    if (text.length < CHUNK_CHARACTERS) continue;
    yield text;
    text = '';
  }
  yield text;
}

function readFilter(params: URLSearchParams): LedgerFilter {
  const livemode = params.get('livemode');
  return {
    account: params.get('account') ?? undefined,
    livemode: livemode === null ? undefined : livemode === 'true',
    namespace: params.get('namespace') ?? undefined,
    period: params.get('period') ?? undefined,
    customer: params.get('customer') ?? undefined,
  };
}

/** The ledger as a value, for tests in the same process. */
export function ledgerOf(
  store: Store,
  filter?: LedgerFilter,
): { entries: LedgerEntry[]; groups: ReturnType<typeof ledgerGroups> } {
  const entries = [...ledgerEntries(store, filter)];
  return { entries, groups: ledgerGroups(entries) };
}
