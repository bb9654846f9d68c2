import type { Judgement } from './referee.ts';
import type { Recovery } from './observe.ts';
import type { ChaosOptions } from './options.ts';

type Verdict = 'pass' | 'fail' | 'unknown';

/** After a worker's kill everything it had in flight is settled within this. */
const RECOVERY_BAR_MS = 25_000;
/** Of the calls, and of the commits, so many have to lose their answer after taking effect. */
const LEAST_LOST = 0.01;
/** Of the customers, so many have to be settled while the faults are on, or the rest only shows the healing. */
export const LEAST_UNDER_FAULTS = 0.02;
export const STATES = ['claimed', 'sent', 'charged', 'declined', 'indeterminate', 'skipped'];
const CLAIM_ANSWERS = ['claimed', 'inDoubt', 'skipped'];

/** Everything that was seen, for the report and for the verdict. */
export interface Seen {
  readonly options: ChaosOptions;
  readonly judgement: Judgement;
  /** by kind, each counted when it took effect; what is at 0 never did */
  readonly faults: Readonly<Record<string, number>>;
  readonly states: Readonly<Record<string, number>>;
  readonly claimAnswers: Readonly<Record<string, number>>;
  readonly sqlstates: Readonly<Record<string, number>>;
  readonly commits: number;
  readonly commitsLost: number;
  readonly calmRecoveryMs: number | null;
  /** customers who were settled while all the faults were on */
  readonly settledUnderFaults: number;
  readonly recovery: Recovery;
  readonly zombies: number;
  /** results of the provider's events */
  readonly webhooks: Readonly<Record<string, number>>;
  readonly workersEndedUnasked: number;
  readonly workerStartMs: number;
  /** from the last fault until nothing was open; null when something still was */
  readonly healMs: number | null;
  readonly seconds: number;
}

export interface ChaosResult {
  readonly verdict: Verdict;
  readonly reasons: readonly string[];
  readonly seen: Seen;
}

/** fail: a promise is broken. unknown: something could not be read, or never happened. */
export function decide(seen: Seen): ChaosResult {
  const broken = brokenIn(seen);
  const missing = missingIn(seen);
  const verdict = broken.length > 0 ? 'fail' : missing.length > 0 ? 'unknown' : 'pass';
  return { verdict, reasons: [...broken, ...missing], seen };
}

function brokenIn({ judgement, healMs, calmRecoveryMs }: Seen): string[] {
  const broken = [...judgement.violations];
  if (judgement.doubleCharged > 0)
    broken.push(`${judgement.doubleCharged} customers were charged twice`);
  if (judgement.lost > 0) broken.push(`${judgement.lost} customers were lost`);
  if (healMs === null) broken.push('outcomes were still open when the time to heal was over');
  if (calmRecoveryMs !== null && calmRecoveryMs > RECOVERY_BAR_MS)
    broken.push(`recovery after a worker's kill took ${calmRecoveryMs} ms`);
  return broken;
}

function missingIn(seen: Seen): string[] {
  const { judgement, faults, states, claimAnswers } = seen;
  const missing = [...judgement.unknowns];
  for (const [name, count] of Object.entries(faults))
    if (count === 0) missing.push(`the fault ${name} never took effect`);
  for (const name of STATES) if (!states[name]) missing.push(`the state ${name} was never seen`);
  for (const name of CLAIM_ANSWERS)
    if (!claimAnswers[name]) missing.push(`claimSlot never answered ${name}`);
  if (judgement.repliesLost < judgement.requests * LEAST_LOST)
    missing.push('less than 1 % of the calls lost their answer');
  if (seen.commitsLost < seen.commits * LEAST_LOST)
    missing.push('less than 1 % of the commits lost their answer');
  if (seen.settledUnderFaults < seen.options.customers * LEAST_UNDER_FAULTS)
    missing.push('hardly anybody was settled while the faults were on: this machine is too busy');
  if (seen.calmRecoveryMs === null)
    missing.push('the recovery after a kill in calm was not measured');
  return missing;
}

/** The object of `--json`. */
export function toJson({ verdict, reasons, seen }: ChaosResult): Record<string, unknown> {
  const {
    options,
    judgement,
    faults,
    options: { seed, profile, customers },
    ...rest
  } = seen;
  return {
    verdict,
    customers,
    charged: judgement.charged,
    doubleCharged: judgement.doubleCharged,
    lost: judgement.lost,
    faultsFired: sum(faults),
    seed,
    profile,
    minutes: options.faultMs / 60_000,
    reasons,
    outcomes: judgement.outcomes,
    faults,
    requests: judgement.requests,
    requestsByStatus: judgement.requestsByStatus,
    repliesLost: judgement.repliesLost,
    vault: judgement.vault,
    ...rest,
  };
}

/** The report for people. */
export function toText(result: ChaosResult): string {
  const { verdict, reasons, seen } = result;
  const { judgement, recovery } = seen;
  return [
    `verdict: ${verdict} (seed ${seen.options.seed}, ${seen.options.customers} customers, ${seen.seconds} s)`,
    ...reasons.map((reason) => `  - ${reason}`),
    '',
    `charged twice ${judgement.doubleCharged} · lost ${judgement.lost} · ${pairs(judgement.outcomes)}`,
    `settled while the faults were on: ${seen.settledUnderFaults} of ${seen.options.customers}`,
    `faults that took effect: ${sum(seen.faults)}`,
    ...Object.entries(seen.faults).map(([name, count]) => `  ${name.padEnd(30)} ${count}`),
    `calls ${judgement.requests}, answer lost after the effect ${judgement.repliesLost} (${share(judgement.repliesLost, judgement.requests)})`,
    `  by status: ${pairs(judgement.requestsByStatus)}`,
    `commits ${seen.commits}, answer lost after the effect ${seen.commitsLost} (${share(seen.commitsLost, seen.commits)})`,
    `PostgreSQL's refusals by SQLSTATE: ${pairs(seen.sqlstates)}`,
    `most slots at once by state: ${pairs(seen.states)}`,
    `answers of claimSlot: ${pairs(seen.claimAnswers)}`,
    `recovery after a kill -9 in calm (all it had in flight settled): ${ms(seen.calmRecoveryMs)}, bar ${RECOVERY_BAR_MS / 1000} s`,
    `recovery among all other faults (all it had in flight taken up again): median ${ms(recovery.medianMs)}, longest ${ms(recovery.maxMs)}; ${recovery.withCharges} of ${recovery.kills} kills met charges in flight`,
    `charges with a zombie's attempt and another's alive at once: ${seen.zombies}`,
    `the provider's events, by what came of them: ${pairs(seen.webhooks)}`,
    `workers that left by themselves and were started again: ${seen.workersEndedUnasked}; a start took ${ms(seen.workerStartMs)} (median)`,
    `the vault: ${judgement.vault.reservations} reservations, ${judgement.vault.spentMinor} spent, ${judgement.vault.succeededMinor} taken by the provider`,
    `healed ${ms(seen.healMs)} after the last fault`,
  ].join('\n');
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, one) => total + one, 0);
}

function pairs(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}

function share(part: number, whole: number): string {
  return whole === 0 ? '–' : `${((100 * part) / whole).toFixed(1)} %`;
}

function ms(value: number | null): string {
  return value === null ? 'not' : `${(value / 1000).toFixed(1)} s`;
}
