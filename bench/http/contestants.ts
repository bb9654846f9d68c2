/** What stands in front of the handler. `chargeonce`: our plugin on PostgreSQL. */
export type Layer =
  | 'none'
  | 'chargeonce'
  | 'chargeonce-memory'
  | 'express-idempotency'
  | 'node-idempotency';
export type Framework = 'fastify' | 'express';

export interface Contestant {
  readonly name: string;
  readonly framework: Framework;
  readonly layer: Layer;
  /** `new`: every request has a key of its own; `known`: one that has been answered */
  readonly keys: 'new' | 'known';
  /** where its keys are kept */
  readonly store: string;
}

/** In the order of the table; each framework's bare route stands before what is compared with it. */
export const CONTESTANTS: readonly Contestant[] = [
  { name: 'fastify', framework: 'fastify', layer: 'none', keys: 'new', store: 'none' },
  {
    name: 'fastify + chargeonce',
    framework: 'fastify',
    layer: 'chargeonce',
    keys: 'new',
    store: 'PostgreSQL',
  },
  {
    name: 'fastify + chargeonce, repeats',
    framework: 'fastify',
    layer: 'chargeonce',
    keys: 'known',
    store: 'PostgreSQL',
  },
  {
    name: 'fastify + chargeonce on a Map',
    framework: 'fastify',
    layer: 'chargeonce-memory',
    keys: 'new',
    store: 'memory',
  },
  {
    name: 'fastify + @node-idempotency/core',
    framework: 'fastify',
    layer: 'node-idempotency',
    keys: 'new',
    store: 'memory',
  },
  { name: 'express', framework: 'express', layer: 'none', keys: 'new', store: 'none' },
  {
    name: 'express + express-idempotency',
    framework: 'express',
    layer: 'express-idempotency',
    keys: 'new',
    store: 'memory',
  },
];

/** The same framework without a layer. */
export function baseOf({ framework }: Contestant): Contestant {
  const base = CONTESTANTS.find((one) => one.framework === framework && one.layer === 'none');
  if (base === undefined) throw new TypeError(`${framework} has no bare route`);
  return base;
}
