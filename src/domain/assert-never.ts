/** Ends an exhaustive `switch`: a new union member that nobody handles stops the type check here. */
export function assertNever(value: never): never {
  throw new Error(`Unhandled case: ${JSON.stringify(value)}`);
}
