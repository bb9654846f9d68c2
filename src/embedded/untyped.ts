/** Narrowing of values that come from outside: JSON of our own files and sockets, thrown errors. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Parses JSON; what is not JSON is undefined. */
export function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch {
    return undefined;
  }
}

/** The `code` of a system error (ENOENT, EPERM, …), or undefined. */
export function errorCode(error: unknown): string | undefined {
  return isRecord(error) && typeof error['code'] === 'string' ? error['code'] : undefined;
}

/** The message of whatever was thrown. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The entries of a record whose values are texts. */
export function textsOf(value: unknown): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [key, text] of Object.entries(isRecord(value) ? value : {})) {
    if (typeof text === 'string') texts[key] = text;
  }
  return texts;
}
