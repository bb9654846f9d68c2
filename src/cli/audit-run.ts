import {
  auditPeriod,
  formatAuditReport,
  providerWitness,
  quickCount,
  temporalHistoryWitness,
  type AuditReport,
  type ProviderWitness,
  type QuickCount,
} from '../audit/index.ts';
import type { RunRef } from '../domain/ids.ts';
import { stripeOfRun } from './biller.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import type { Platform } from './platform.ts';
import type { Session } from './shell.ts';

/** Charged twice and lost, in the provider's own list and our tables, for the end of a run. */
export async function countAtProvider(platform: Platform, run: RunRef): Promise<QuickCount> {
  const provider = await witnessOf(platform, run);
  return quickCount({ databaseUrl: platform.databaseUrl.reveal(), run, provider });
}

const EXIT_OF_VERDICT: Readonly<Record<AuditReport['verdict'], ExitCode>> = {
  pass: EXIT.ok,
  fail: EXIT.failed,
  unknown: EXIT.unknown,
};

export interface PrintedAudit extends AuditReport {
  readonly exitCode: ExitCode;
}

/** Audits a period with all witnesses, shows the progress, prints the report for people. */
export async function auditAndPrint(
  session: Session,
  run: RunRef,
  options: { readonly withoutTemporal?: boolean } = {},
): Promise<PrintedAudit> {
  const { platform, output } = session;
  const temporal =
    options.withoutTemporal === true
      ? null
      : temporalHistoryWitness((await platform.client()).temporal);
  const report = await auditPeriod({
    databaseUrl: platform.databaseUrl.reveal(),
    run,
    provider: await witnessOf(platform, run),
    temporal,
    onProgress: ({ witness, done, total }) =>
      output.redraw(`asking the ${witness}: ${done}${total === null ? '' : ` of ${total}`}`),
  });
  output.redraw('');
  output.line(formatAuditReport(report));
  return { ...report, exitCode: EXIT_OF_VERDICT[report.verdict] };
}

async function witnessOf({ biller }: Platform, run: RunRef): Promise<ProviderWitness> {
  if (biller === null) throw new Error('this command did not ask for Stripe');
  const { apiKey, apiBase } = await stripeOfRun(biller, run);
  return providerWitness({ apiKey: apiKey.reveal(), apiBase });
}
