const left: (() => Promise<unknown>)[] = [];

/** Does this when the test file is done, the last thing asked for first. May be called anywhere, also in a test. */
export function atEndOfFile(work: () => Promise<unknown>): void {
  left.push(work);
}

/** What the setup file of every project calls behind a test file. Everything is done, also when a part of it fails. */
export async function endFile(): Promise<void> {
  const errors: unknown[] = [];
  for (const work of left.splice(0).toReversed()) {
    await work().catch((error: unknown) => errors.push(error));
  }
  if (errors.length > 0) throw new AggregateError(errors, 'a test file could not be cleaned up');
}
