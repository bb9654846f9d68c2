import {
  idempotentFetch,
  IdempotencyClientError,
  type IdempotentFetch,
  type IdempotentFetchOptions,
  type KeyStorage,
} from '../../src/http/idempotency-client/index.ts';
import type { Step } from './lossy-server.ts';

/** A client that does not let a test wait. */
export function sender(options: IdempotentFetchOptions = {}): IdempotentFetch {
  return idempotentFetch(undefined, { baseDelayMs: 2, deadlineMs: 5_000, ...options });
}

export function post(
  body: NonNullable<RequestInit['body']> = '{"amount":1}',
  more: RequestInit = {},
): RequestInit {
  return { method: 'POST', body, headers: { 'Content-Type': 'application/json' }, ...more };
}

/** An answer of the idempotency layer. */
export function problem(status: number, code: string, headers: Record<string, string> = {}): Step {
  return {
    status,
    headers: { 'Content-Type': 'application/problem+json', ...headers },
    body: JSON.stringify({ type: `/idempotency#${code}`, status, code }),
  };
}

export const IN_USE = problem(409, 'idempotency-key-in-use', { 'Retry-After': '0' });

/** The code of the client's own refusal, or `sent`; throws what is neither. */
export async function codeOf(call: Promise<unknown> | (() => unknown)): Promise<string> {
  try {
    await (typeof call === 'function' ? call() : call);
  } catch (error) {
    if (error instanceof IdempotencyClientError) return error.code;
    throw error;
  }
  return 'sent';
}

export class MemoryStorage implements KeyStorage {
  readonly entries = new Map<string, string>();

  getItem(name: string): string | null {
    return this.entries.get(name) ?? null;
  }

  setItem(name: string, value: string): void {
    this.entries.set(name, value);
  }

  removeItem(name: string): void {
    this.entries.delete(name);
  }
}
