import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { InvalidArgumentError, type Command } from '@commander-js/extra-typings';
import { readReasons, readRunSummary, type RunSummary } from '../../db/run-summary.ts';
import { nextPeriod, periodContaining } from '../../domain/billing-period.ts';
import { runWorkflowId, type RunRef } from '../../domain/ids.ts';
import { DEFAULT_NAMESPACE } from '../../domain/namespace.ts';
import { totalOf } from '../../domain/outcome-counts.ts';
import { importCustomers } from '../../import/import-customers.ts';
import { auditAndPrint } from '../audit-run.ts';
import { demoFaults, faultsFired, setFaults } from '../demo-faults.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { followRun } from '../follow-run.ts';
import { table } from '../output.ts';
import { formatReport, reportOf } from '../run-report.ts';
import { parseRun, untilInterrupted, withSession, type Session, type Shell } from '../shell.ts';

const EXAMPLE = fileURLToPath(new URL('../../../examples/customers.csv', import.meta.url));

/** What a demo must never use, even when it is configured: it plays with its own parts only. */
const REAL_SERVICES = [
  'DATABASE_URL',
  'STRIPE_API_KEY',
  'STRIPE_API_BASE',
  'STRIPE_ACCOUNT_ID',
  'CHARGEONCE_MODE',
  'VAULT_URL',
  'VAULT_ADMIN_URL',
  'VAULT_RUN_TOKEN',
];

/** Settle pauses of seconds instead of minutes: the simulator knows the truth at once. */
const DEMO_PAUSES = '2s,2s,3s,5s,10s';

/** The worker is killed when this share of the customers is done. */
const KILL_AT = 0.4;

/** More than this many periods in one demo home means that somebody should clear it. */
const MAX_PERIODS = 600;

interface DemoOptions {
  readonly file: string;
  readonly period: string | undefined;
  readonly seed: number;
  readonly faults: boolean;
  readonly kill: boolean;
  readonly keep: boolean;
  readonly json: boolean;
}

export function registerDemo(program: Command, shell: Shell): void {
  program
    .command('demo')
    .description(
      'bill 500 example customers on this machine, with faults and a killed worker, and audit the result',
    )
    .option('--file <csv>', 'customers to bill', EXAMPLE)
    .option(
      '--period <period>',
      'what to bill (default: this month, or the next one not billed yet)',
    )
    .option('--seed <n>', 'seed of the faults', seed, 1)
    .option('--no-faults', 'a provider that always answers')
    .option('--no-kill', 'leave the worker alone')
    .option(
      '--keep',
      'keep everything running at the end until Ctrl-C, to look around (default on a terminal)',
    )
    .option('--no-keep', 'stop at the end')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const json = options.json === true;
      const interactive = process.stdout.isTTY && process.stderr.isTTY;
      const keep = (options.keep ?? interactive) && !json;
      await demo(shell, { ...options, keep, json, period: options.period });
    });
}

async function demo(shell: Shell, options: DemoOptions): Promise<void> {
  const env = demoEnv(shell.env);
  const needs = { temporal: true, stripe: true, worker: true, server: true };
  const platform = {
    embeddedOnly: true,
    workerEnv: { RECONCILE_PAUSES: DEMO_PAUSES, LOG_LEVEL: 'error' },
  };
  await withSession(shell, { needs, json: options.json, env, platform }, async (session) => {
    const ignored = REAL_SERVICES.filter((name) => (shell.env[name] ?? '') !== '');
    if (ignored.length > 0)
      session.output.note(`· ${ignored.join(', ')} not used: the demo has its own parts`);
    const run = await prepare(session, options);
    await bill({ shell, session, run, options });
    if (options.keep && !shell.interrupted.aborted) {
      session.output.note(`Look around: ${uiLink(session, run)} · Ctrl-C stops everything`);
      await untilInterrupted(shell);
    }
  });
}

function demoEnv(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own = Object.fromEntries(
    Object.entries(env).filter(([name]) => !REAL_SERVICES.includes(name)),
  );
  return { ...own, CHARGEONCE_HOME: path.join(env['CHARGEONCE_HOME'] || '.chargeonce', 'demo') };
}

async function prepare(session: Session, options: DemoOptions): Promise<RunRef> {
  const { platform, output } = session;
  const imported = await importCustomers({
    db: platform.database.db,
    input: options.file,
    actor: 'demo',
  });
  if (!imported.ok) {
    const [first] = imported.problems;
    throw new CommandError(
      EXIT.usage,
      `${options.file} has ${imported.problemCount} problems, the first in line ${first?.line ?? 0}: ${first?.message ?? ''}`,
    );
  }
  output.note(`· ${imported.rows} customers from ${path.relative(process.cwd(), options.file)}`);
  if (options.period !== undefined) return parseRun(options.period, DEFAULT_NAMESPACE);
  return nextUnbilled(session);
}

/** This month when it is not billed yet (or was interrupted), else the next month that is not. */
async function nextUnbilled(session: Session): Promise<RunRef> {
  let period = periodContaining(Date.now(), 'month', session.config.BILLING_ZONE);
  for (let tried = 0; tried < MAX_PERIODS; tried += 1) {
    const run = { namespace: DEFAULT_NAMESPACE, period };
    const summary = await readRunSummary(session.platform.database.db, run);
    if (summary === null || summary.state !== 'completed') return run;
    period = nextPeriod(period);
  }
  throw new CommandError(
    EXIT.failed,
    `${MAX_PERIODS} periods are billed in ${session.config.CHARGEONCE_HOME}: remove that folder`,
  );
}

async function bill(at: {
  shell: Shell;
  session: Session;
  run: RunRef;
  options: DemoOptions;
}): Promise<void> {
  const { shell, session, run, options } = at;
  const { platform, output } = session;
  const simulatorUrl = platform.simulatorUrl ?? '';
  const client = await platform.client();
  if (options.faults) await setFaults(simulatorUrl, demoFaults(options.seed));
  const began = performance.now();
  const answer = await client.startRun(run, 'demo');
  output.note(
    `· ${answer.kind === 'started' ? 'started' : 'goes on with'} ${answer.workflowId} · ${uiLink(session, run)}`,
  );
  const onSummary = options.kill ? killWorkerOnce(session) : async () => {};
  const end = await followRun({ platform, output, run, interrupted: shell.interrupted, onSummary });
  const seconds = (performance.now() - began) / 1000;
  const fired = options.faults ? await faultsFired(simulatorUrl) : [];
  if (options.faults) await setFaults(simulatorUrl, null);
  if (end !== 'closed') {
    output.note('interrupted: run the demo again and it goes on where it stopped');
    shell.exitCode = end === 'paused' ? EXIT.unfinished : EXIT.interrupted;
    return;
  }
  if (fired.length > 0)
    output.line(
      table(
        ['fault', 'fired'],
        fired.map((fault) => [fault.id, fault.fired]),
      ),
    );
  await conclude({ shell, session, run, seconds, fired });
}

async function conclude(at: {
  shell: Shell;
  session: Session;
  run: RunRef;
  seconds: number;
  fired: readonly { id: string; fired: number }[];
}): Promise<void> {
  const { shell, session, run, seconds, fired } = at;
  const { platform, output } = session;
  const summary = await readRunSummary(platform.database.db, run);
  if (summary === null)
    throw new CommandError(
      EXIT.failed,
      `${runWorkflowId(run)} ended without a plan: see the Temporal UI`,
    );
  const audit = await auditAndPrint(session, run);
  const provider = { doubleCharged: audit.doubleCharged, lost: audit.lost };
  const report = reportOf({
    run,
    summary,
    provider,
    seconds,
    workflowId: runWorkflowId(run),
    alreadyCompleted: false,
  });
  output.line(formatReport(report, await readReasons(platform.database.db, run)));
  const faultsTotal = fired.reduce((sum, fault) => sum + fault.fired, 0);
  output.result({
    ...report,
    faultsFired: faultsTotal,
    audit: audit.verdict,
    temporalUiUrl: platform.temporalUiUrl,
  });
  if (audit.exitCode !== EXIT.ok) shell.exitCode = audit.exitCode;
  else if (report.indeterminate > 0) shell.exitCode = EXIT.unfinished;
}

/** Kills the worker with -9 in the middle of the run; the supervisor starts it again. */
function killWorkerOnce(session: Session): (summary: RunSummary) => Promise<void> {
  let killed = false;
  return async (summary) => {
    if (killed || totalOf(summary.counts) < summary.customers * KILL_AT) return;
    killed = true;
    const parts = (await session.platform.lease?.status()) ?? [];
    const pid = parts.find((part) => part.name === 'worker')?.pid;
    if (pid === undefined) return;
    process.kill(pid, 'SIGKILL');
    session.output.note(`· killed the worker (kill -9 ${pid}) in the middle of the run`);
  };
}

function uiLink({ platform }: Session, run: RunRef): string {
  return `${platform.temporalUiUrl ?? ''}/namespaces/default/workflows/${runWorkflowId(run)}`;
}

function seed(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new InvalidArgumentError('a whole number');
}
