import http from 'node:http';
import https from 'node:https';
import { parseJson } from '../domain/json.ts';
import { KeyedAgents } from './keyed-agents.ts';
import type { UpstreamAnswer } from './judge-reply.ts';

export interface UpstreamOptions {
  /** Stripe, or STRIPE_API_BASE: scheme, host and port, no path */
  readonly base: string;
  /** the Stripe key; only this file puts it anywhere */
  readonly secret: { reveal(): string };
  readonly timeoutMs: number;
}

interface UpstreamRequest {
  readonly method: string;
  /** with its query */
  readonly path: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  /** whose pool of connections it uses */
  readonly keyId: string;
}

/** A whole answer, or that there was none; error is a code, fit for a log. */
export type UpstreamReply =
  | {
      readonly kind: 'reply';
      readonly status: number;
      readonly headers: http.IncomingHttpHeaders;
      /** null when it was larger than the vault reads */
      readonly body: Buffer | null;
    }
  | Extract<UpstreamAnswer, { kind: 'lost' }>;

/** What a read of the vault's own brought; throws nothing. */
type OwnRead =
  | { readonly kind: 'read'; readonly status: number; readonly body: unknown }
  | { readonly kind: 'lost'; readonly reason: string };

export interface Upstream {
  /** Sends once. Nothing is ever sent again from here, whatever the network does. */
  send(request: UpstreamRequest): Promise<UpstreamReply>;
  /** A GET with the vault's own key, for the sweep and for intents that no reply has named. */
  get(path: string): Promise<OwnRead>;
  close(): void;
}

/** A page of a hundred charges has some 300 KB; more than this is no answer of Stripe's. */
const MAX_REPLY_BYTES = 8 * 1024 * 1024;
const OWN_READS = 'vault';

/** The one way out. The host is that of the options, whatever a request says; redirects are answers like others. */
export function createUpstream(options: UpstreamOptions): Upstream {
  const base = new URL(options.base);
  if (base.pathname !== '/' || base.search !== '')
    throw new Error('the upstream has no path of its own');
  const secure = base.protocol === 'https:';
  if (!secure && base.protocol !== 'http:') throw new Error('the upstream is http or https');
  const agents = new KeyedAgents(secure);

  const send = async (request: UpstreamRequest): Promise<UpstreamReply> => {
    const lease = agents.take(request.keyId);
    const headers = {
      ...Object.fromEntries(request.headers),
      Authorization: `Bearer ${options.secret.reveal()}`,
      'Accept-Encoding': 'identity',
      ...(request.method === 'POST' ? { 'Content-Length': String(request.body.length) } : {}),
    };
    try {
      const call = (secure ? https : http).request({
        agent: lease.agent,
        hostname: base.hostname.replace(/^\[|\]$/g, ''),
        ...(base.port === '' ? {} : { port: base.port }),
        method: request.method,
        path: request.path,
        headers,
        insecureHTTPParser: false,
      });
      return await exchange(call, request.body, options.timeoutMs);
    } finally {
      lease.release();
    }
  };

  return {
    send,
    get: async (path) => {
      const headers = [['User-Agent', 'chargeonce-vault']] as const;
      const reply = await send({
        method: 'GET',
        path,
        headers,
        body: Buffer.alloc(0),
        keyId: OWN_READS,
      });
      if (reply.kind === 'lost') return reply;
      const body = reply.body === null ? undefined : parseJson(reply.body.toString('utf8'));
      if (body === undefined) return { kind: 'lost', reason: 'unreadable_reply' };
      return { kind: 'read', status: reply.status, body };
    },
    close: () => agents.close(),
  };
}

function exchange(
  call: http.ClientRequest,
  body: Buffer,
  timeoutMs: number,
): Promise<UpstreamReply> {
  return new Promise((resolve) => {
    let began = false;
    const end = (reply: UpstreamReply): void => {
      clearTimeout(timer);
      resolve(reply);
    };
    const lose = (reason: string): void => {
      end({ kind: 'lost', reason });
      call.destroy();
    };
    const timer = setTimeout(() => lose('upstream_timeout'), timeoutMs);
    // Stays for the life of the call: a socket may break again after the promise has its answer.
    call.on('error', (error) => lose(began ? 'truncated_reply' : codeOf(error)));
    call.on('response', (response) => {
      began = true;
      const chunks: Buffer[] = [];
      let size = 0;
      response.on('data', (chunk: Buffer) => {
        size += chunk.length;
        chunks.push(chunk);
        if (size <= MAX_REPLY_BYTES) return;
        end({
          kind: 'reply',
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: null,
        });
        call.destroy();
      });
      response.on('error', () => lose('truncated_reply'));
      response.on('close', () => {
        if (!response.complete) return lose('truncated_reply');
        const { statusCode, headers } = response;
        end({ kind: 'reply', status: statusCode ?? 0, headers, body: Buffer.concat(chunks) });
      });
    });
    call.end(body);
  });
}

/** The error's code alone: messages may quote what was sent. */
function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code.toLowerCase() : 'no_answer';
}
