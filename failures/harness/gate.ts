/** A place where so many meet: whoever comes first is held until the others are there as well. */
export interface Gate {
  /** Waits until all have come or have left; from then on nobody waits. */
  pass(): Promise<void>;
  /** One of them is through without having come, and is not waited for. */
  leave(): void;
}

/** Forces two or more to be at one point at once: nothing that one of them does after it is seen by the others before. */
export function gateFor(count: number): Gate {
  const open = Promise.withResolvers<void>();
  let missing = count;
  const arrive = (): void => {
    missing -= 1;
    if (missing <= 0) open.resolve();
  };
  return {
    pass() {
      arrive();
      return open.promise;
    },
    leave: arrive,
  };
}
