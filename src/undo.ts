/** What was opened and has to be closed, in the order of opening. */
export type Undo = (() => Promise<void>)[];

/** Closes in reverse order of opening; one that fails does not keep the others open. */
export async function runAll(undo: Readonly<Undo>): Promise<void> {
  for (const step of undo.toReversed()) await step().catch(() => {});
}
