import { badParameter } from './errors.ts';
import type { Params } from './params.ts';

// Stripe's limits: https://docs.stripe.com/api/metadata
const MAX_KEYS = 50;
const MAX_KEY_LENGTH = 40;
const MAX_VALUE_LENGTH = 500;

/** Metadata after this request: new pairs over the old ones, an empty value removes its key, `metadata=` removes all. */
export function readMetadata(
  params: Params,
  before: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const merged = new Map(params.get('metadata') === '' ? [] : Object.entries(before));
  for (const [key, value] of params.entries('metadata')) {
    const param = `metadata[${key}]`;
    if (key === '' || key.length > MAX_KEY_LENGTH || /[[\]]/.test(key)) {
      throw badParameter(
        param,
        `Metadata keys have 1 to ${MAX_KEY_LENGTH} characters without square brackets: ${key}`,
      );
    }
    if (value.length > MAX_VALUE_LENGTH) {
      throw badParameter(param, `Metadata values can have up to ${MAX_VALUE_LENGTH} characters.`);
    }
    if (value === '') merged.delete(key);
    else merged.set(key, value);
  }
  if (merged.size > MAX_KEYS) {
    throw badParameter('metadata', `Metadata can have up to ${MAX_KEYS} keys.`);
  }
  return Object.fromEntries(merged);
}
