import { createInterface } from 'node:readline';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { z } from 'zod';
import { Secret } from '../../src/secret.ts';
import { startWorker } from '../../src/worker.ts';

/** What a crash test tells its worker process, as JSON in the first argument. */
const planSchema = z.object({
  databaseUrl: z.string(),
  temporalAddress: z.string(),
  stripeBase: z.string(),
  queues: z.array(z.enum(['billing', 'charge'])),
  /** file with the bundled workflow code and the interceptors of the crash tests */
  bundle: z.string(),
  /** customer, or workflow id → the point at which it is held until it is released; '' stands for no slot */
  parks: z.record(z.string(), z.string()),
});
export type CrashPlan = z.infer<typeof planSchema>;

// A production worker that halts single customers at their crash points, says so on stdout (`reached POINT WHO`), and
// goes on with them on order (`release WHO` on stdin). Killed at that moment, it has died exactly there.
const plan = planSchema.parse(JSON.parse(process.argv[2] ?? ''));
const gates = new Map(
  Object.keys(plan.parks).map((who) => [who, Promise.withResolvers<void>()] as const),
);

async function park(point: string, who: string): Promise<void> {
  if (plan.parks[who] !== point) return;
  process.stdout.write(`reached ${point} ${who}\n`);
  await gates.get(who)?.promise;
}

createInterface({ input: process.stdin })
  .on('line', (line) => gates.get(line.replace(/^release /, ''))?.resolve())
  // The test is gone: nobody would kill this process any more.
  .on('close', () => process.exit(1));

Runtime.install({
  logger: new DefaultLogger('ERROR'),
  telemetryOptions: { logging: { forward: {}, filter: 'ERROR' } },
});
const worker = await startWorker({
  databaseUrl: new Secret(plan.databaseUrl),
  temporal: { connection: { address: plan.temporalAddress }, namespace: 'default' },
  stripe: { apiKey: new Secret('sk_test_crash'), apiBase: plan.stripeBase, timeoutMs: 30_000 },
  mode: 'test',
  chargesPerSecond: 0,
  reconcilePausesMs: [1_000, 1_000, 2_000, 3_000, 5_000],
  absenceQuietMs: 1_000,
  maxCachedWorkflows: 200,
  queues: plan.queues,
  workflowBundle: { codePath: plan.bundle },
  sinks: {
    crash: {
      at: {
        fn: (info: { readonly workflowId: string }, point: string) => park(point, info.workflowId),
      },
    },
  },
  crashPoint: (point, slot) => park(point, slot?.customerId ?? ''),
  onDatabaseError: () => {},
});
process.stdout.write('ready\n');
await worker.stopped;
