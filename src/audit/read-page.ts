import { setTimeout as sleep } from 'node:timers/promises';
import { reasonOf, WitnessUnreadable } from './witnesses.ts';

/** One page of a list takes a second or less; a peer that is silent for this long is not answering. */
const PAGE_TIMEOUT_MS = 30_000;
/** 0.5 s, 1, 2, 4, 8, 8: about 24 s for a provider that limits or stumbles, then the audit says unknown. */
const MAX_TRIES = 7;
/** Time-out, conflict and rate limit: refused now, answered later. */
const MAY_PASS: ReadonlySet<number> = new Set([408, 409, 429]);
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 8_000;

export interface PageReader {
  readonly headers: Readonly<Record<string, string>>;
  /** pauses are multiplied by this; 1 but in tests */
  readonly pace: number;
}

/**
 * GETs one JSON page. Rate limits, 5xx and broken connections are tried again, since a read changes
 * nothing; what still fails, or is no JSON, throws WitnessUnreadable. Never an empty page instead.
 */
export async function readPage(url: URL, reader: PageReader): Promise<Record<string, unknown>> {
  let problem = '';
  for (let tried = 0; tried < MAX_TRIES; tried += 1) {
    if (tried > 0) await sleep(pauseMs(tried) * reader.pace);
    try {
      const response = await fetch(url, {
        headers: reader.headers,
        redirect: 'error',
        signal: AbortSignal.timeout(PAGE_TIMEOUT_MS),
      });
      const text = await response.text();
      if (response.ok) return objectOf(text);
      problem = `status ${response.status}`;
      if (!MAY_PASS.has(response.status) && response.status < 500) break;
    } catch (error) {
      problem = reasonOf(error);
    }
  }
  throw new WitnessUnreadable(`${url.origin}${url.pathname} could not be read: ${problem}`);
}

function pauseMs(tried: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (tried - 1), MAX_PAUSE_MS);
}

function objectOf(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  if (!isObject(value)) throw new TypeError('the page is not a JSON object');
  return value;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A list of objects in a page; anything else means that the page cannot be trusted. */
export function listOf(value: unknown, name: string): readonly Record<string, unknown>[] {
  if (Array.isArray(value) && value.every(isObject)) return value;
  throw new WitnessUnreadable(`the page has no list "${name}"`);
}

export function textOf(value: unknown, name: string): string {
  if (typeof value === 'string') return value;
  throw new WitnessUnreadable(`the page has a record without "${name}"`);
}

export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

export function minorOf(value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  throw new WitnessUnreadable('the page has an amount that is not a whole number');
}
