import { startWireServer, type WireServer } from '../../harness/wire-server.ts';

const PASSED_ON = ['authorization', 'content-type', 'idempotency-key'];

/**
 * A load balancer as it is set up to hide servers that are away: no answer in time, or a broken connection, and the next
 * server gets the request (in nginx `proxy_next_upstream error timeout non_idempotent`). `late` says when the first
 * server's time is over.
 */
export function startBalancer(
  servers: readonly string[],
  late: AbortSignal = new AbortController().signal,
): Promise<WireServer> {
  return startWireServer(async ({ method, path, headers, body }) => {
    const passed = PASSED_ON.flatMap((name) => {
      const value = headers[name];
      return typeof value === 'string' ? [[name, value] as const] : [];
    });
    for (const [at, server] of servers.entries()) {
      try {
        const answer = await fetch(`${server}${path}`, {
          method,
          headers: Object.fromEntries(passed),
          ...(body === '' ? {} : { body }),
          ...(at === 0 ? { signal: late } : {}),
        });
        return { status: answer.status, raw: await answer.text() };
      } catch {
        // The next server.
      }
    }
    return { status: 502, body: { error: 'no server answers' } };
  });
}
