/**
 * Of a route whose effects all have keys of their own, made of the Idempotency-Key or of what is ordered: its handler may
 * run again after a crash, and a 503 (Temporal, Stripe or the vault away) is no answer that anybody wants for a day.
 */
export const KEYED = { takeover: 'rerun', neverStored: [503] } as const;
