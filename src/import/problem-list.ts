/** One thing wrong with a file. Line 0: the file as a whole. */
export type ImportProblem = {
  readonly line: number;
  readonly column: string;
  /** What was written, where it is safe to repeat. */
  readonly value?: string;
  readonly message: string;
};

/** Kept and shown; more are only counted, so that a hopeless file costs no memory. */
export const MAX_LISTED_PROBLEMS = 1000;

/** Collects problems: the first thousand whole, the rest as a count. */
export type ProblemList = {
  add(problem: ImportProblem): void;
  /** Counts problems that were found but not fetched. */
  addUnlisted(count: number): void;
  /** In the order of the file. */
  listed(): ImportProblem[];
  count(): number;
};

export function createProblemList(): ProblemList {
  const kept: ImportProblem[] = [];
  let count = 0;
  return {
    add(problem) {
      count += 1;
      if (kept.length < MAX_LISTED_PROBLEMS) kept.push(problem);
    },
    addUnlisted(more) {
      count += more;
    },
    listed: () => [...kept].sort((a, b) => a.line - b.line),
    count: () => count,
  };
}
