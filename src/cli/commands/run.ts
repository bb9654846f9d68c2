import type { Command } from '@commander-js/extra-typings';
import type { StartAnswer } from '../../client.ts';
import { readReasons, readRunSummary } from '../../db/run-summary.ts';
import { assertNever } from '../../domain/assert-never.ts';
import type { RunRef } from '../../domain/ids.ts';
import { runWorkflowId } from '../../domain/ids.ts';
import { startPeriod } from '../../start-run.ts';
import { countAtProvider } from '../audit-run.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import type { Platform } from '../platform.ts';
import { followRun, type FollowEnd } from '../follow-run.ts';
import { formatReport, openIn, reportOf, settledIn } from '../run-report.ts';
import { defaultOperator, parseRun, withSession, type Session, type Shell } from '../shell.ts';

export function registerRun(program: Command, shell: Shell): void {
  program
    .command('run')
    .description('start the billing run of a period, or attach to the one under way')
    .argument('<period>', 'what to bill: 2026-11, 2026-W48, 2026-11-29 or 2026')
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--wait', 'show the progress and end with the result')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (period, options) => {
      const run = parseRun(period, options.namespace);
      const json = options.json === true;
      const waits = options.wait === true;
      const needs = { temporal: true, stripe: true, worker: waits, server: waits };
      await withSession(shell, { needs, json }, async (session) => {
        await startAndFollow({ shell, session, run, wait: options.wait === true });
      });
    });
}

async function startAndFollow(order: {
  shell: Shell;
  session: Session;
  run: RunRef;
  wait: boolean;
}): Promise<void> {
  const { shell, session, run, wait } = order;
  const { output, platform } = session;
  const before = await readRunSummary(platform.database.db, run);
  const began = performance.now();
  if (before?.state === 'completed') {
    output.note(completedMessage(run));
    const doneBefore = settledIn(before);
    await finish({ session, run, shell, seconds: 0, doneBefore, alreadyCompleted: true });
    return;
  }
  if (before?.state === 'stopped')
    output.note(`${run.period} was stopped: it goes on with the customers that are left`);
  const answer = await start(platform, run);
  const ui = platform.temporalUiUrl;
  const where = ui === null ? '' : ` · ${ui}/namespaces/default/workflows/${answer.workflowId}`;
  output.note(`${STARTED[answer.kind](answer.workflowId)}${where}`);
  if (!wait) {
    output.result({
      period: run.period,
      namespace: run.namespace,
      workflowId: answer.workflowId,
      started: answer.kind === 'started',
    });
    output.line(goesOnNote(platform, run));
    return;
  }
  const end = await followRun({ platform, output, run, interrupted: shell.interrupted });
  const seconds = (performance.now() - began) / 1000;
  const doneBefore = before === null ? 0 : settledIn(before);
  await finish({ session, run, shell, seconds, doneBefore, alreadyCompleted: false, end });
}

const STARTED = {
  started: (id: string) => `started ${id}`,
  alreadyRunning: (id: string) => `${id} is under way already: attached to it`,
  completedBefore: (id: string) => `${id} has ended before: nobody is charged now`,
} as const;

function otherDatabaseMessage(run: RunRef): string {
  return (
    `Temporal has ${runWorkflowId(run)} as ended, but this database has no plan of it. ` +
    'Do DATABASE_URL and TEMPORAL_ADDRESS belong together? Nobody was charged by this command'
  );
}

/** What becomes of a run when nobody waits for it. */
export function goesOnNote(platform: Platform, run: RunRef): string {
  return platform.lease?.endpoints.temporalAddress === undefined
    ? `It goes on as long as a worker runs: "chargeonce worker" is one; "chargeonce status ${run.period}" shows how it stands.`
    : `It goes on only while a worker runs here: keep one by "chargeonce up", or go on now with "chargeonce run ${run.period} --wait".`;
}

const INTERRUPTED = 'interrupted: the run is kept and goes on when you run this command again';

/** Starts the run, or says why it cannot be started. Whoever orders it here wants a stopped one to go on. */
async function start(platform: Platform, run: RunRef): Promise<StartAnswer> {
  const outcome = await startPeriod(
    { db: platform.database.db, client: () => platform.client() },
    { run, startedBy: defaultOperator(), goOnAfterStop: true },
  );
  switch (outcome.kind) {
    case 'started':
    case 'alreadyRunning':
    case 'completedBefore':
      return { kind: outcome.kind, workflowId: outcome.workflowId };
    case 'noCustomers':
      throw new CommandError(
        EXIT.usage,
        'there are no active customers to bill. Import them first: chargeonce import customers FILE.csv',
      );
    case 'otherDatabase':
      throw new CommandError(EXIT.failed, otherDatabaseMessage(run));
    case 'stopped':
      throw new Error('a stopped run goes on when it is told to');
    default:
      return assertNever(outcome);
  }
}

function completedMessage(run: RunRef): string {
  return (
    `${runWorkflowId(run)} is completed: nobody is charged again. ` +
    `"chargeonce status ${run.period}" shows it; "chargeonce rerun ${run.period} CUSTOMER --reason …" bills one customer again.`
  );
}

/** Prints how the run stands and sets the exit code. */
async function finish(at: {
  session: Session;
  run: RunRef;
  shell: Shell;
  seconds: number;
  doneBefore: number;
  alreadyCompleted: boolean;
  end?: FollowEnd;
}): Promise<void> {
  const { session, run, shell } = at;
  const { output, platform } = session;
  const summary = await readRunSummary(platform.database.db, run);
  if (summary === null) {
    if (at.end === 'interrupted') throw new CommandError(EXIT.interrupted, INTERRUPTED);
    throw new CommandError(EXIT.failed, await whyNotPlanned(session, run));
  }
  const provider = await countAtProvider(platform, run);
  if (provider.problem !== null) output.note(`charged twice is not counted: ${provider.problem}`);
  const report = reportOf({ ...at, summary, provider, workflowId: runWorkflowId(run) });
  output.line(formatReport(report, await readReasons(platform.database.db, run)));
  output.result(report);
  if (at.end === 'interrupted') {
    output.note(INTERRUPTED);
    shell.exitCode = EXIT.interrupted;
  } else if ((report.doubleCharged ?? 0) > 0 || report.lost > 0) shell.exitCode = EXIT.failed;
  else if (report.doubleCharged === null) shell.exitCode = EXIT.unknown;
  else if (report.state !== 'completed' || openIn(summary) > 0) shell.exitCode = EXIT.unfinished;
}

/** The run's workflow ended before it had a plan: its failure says why. */
async function whyNotPlanned(session: Session, run: RunRef): Promise<string> {
  const client = await session.platform.client();
  try {
    await client.run(run).result();
    return `${runWorkflowId(run)} ended without a plan`;
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const deepest = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
    return `${runWorkflowId(run)} failed: ${deepest instanceof Error ? deepest.message : String(deepest)}`;
  }
}
