declare const namespaceBrand: unique symbol;

/** What is billed: `base`, or another independent run for the same period, such as `overage`. */
export type BillingNamespace = string & { readonly [namespaceBrand]: true };

const NAMESPACE = /^[a-z][a-z0-9_-]{0,31}$/;

export const DEFAULT_NAMESPACE: BillingNamespace = defaultNamespace('base');

function isNamespace(text: string): text is BillingNamespace {
  return NAMESPACE.test(text);
}

/** The only way to a `BillingNamespace`. */
export function parseBillingNamespace(
  text: string,
): { readonly ok: true; readonly namespace: BillingNamespace } | { ok: false; problem: string } {
  if (isNamespace(text)) return { ok: true, namespace: text };
  return {
    ok: false,
    problem:
      `${JSON.stringify(text)} is not a namespace: a lower-case letter, then up to 31 of ` +
      'a-z, 0-9, "_" and "-", such as "base" or "overage"',
  };
}

function defaultNamespace(text: string): BillingNamespace {
  const parsed = parseBillingNamespace(text);
  if (!parsed.ok) throw new RangeError(parsed.problem);
  return parsed.namespace;
}
