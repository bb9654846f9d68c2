/** What a text says as JSON; undefined when it is none. Says nothing about the shape. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
