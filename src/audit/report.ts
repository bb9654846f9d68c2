/** `unknown`: something could not be read to its end, so neither pass nor fail may be said. */
export type Verdict = 'pass' | 'fail' | 'unknown';

/** What an exit code of the audit means to a script. */
const AUDIT_EXIT_CODES: Readonly<Record<Verdict, number>> = { pass: 0, fail: 1, unknown: 4 };

/**
 * disagreement: the witnesses contradict each other, or a promise is broken. unfinished: not decided
 * yet, look again later. open: an outcome that is honestly unknown, named so that somebody looks.
 */
export type Severity = 'disagreement' | 'unfinished' | 'open';

export const FINDING_TITLES = {
  charged_twice: 'charged twice',
  several_payment_intents: 'several confirmed PaymentIntents for one slot',
  charged_at_provider_only: 'charged at the provider, not in the database',
  charged_in_database_only: 'charged in the database, not at the provider',
  provider_differs: 'the provider charged under another PaymentIntent or charge',
  differs_from_item: 'amount, currency or customer differ from the frozen item',
  outside_plan: 'known to a witness, but not a customer of the plan',
  lost: 'customer of the plan without a slot',
  not_reached: 'no slot yet, and the run is not completed',
  unfinished: 'slot claimed or sent, not settled',
  open_outcome: 'outcome unknown',
  history_differs: "the workflow's history says otherwise than the slot",
  frozen_request_differs: 'the frozen request is for another amount, currency or customer',
  several_keys: 'several keys for one generation',
  several_bodies: 'one key with several bodies',
  key_differs: "the slot's key is not the key of its generation",
  unknown_key: 'made at the provider under a key that was never stored',
  attempt_differs: 'an attempt reached the provider otherwise than recorded',
  generation_differs: 'slot and generations tell different outcomes',
  audit_log_differs: 'the audit log and the slot tell different charges',
  plan_differs: 'the plan does not have the number of customers it was made with',
  sum_differs: 'the witnesses add up to different sums',
} as const;

export type FindingKind = keyof typeof FINDING_TITLES;

/** One row to look at: who, what is wrong, and what each witness says. */
export interface Finding {
  readonly kind: FindingKind;
  readonly severity: Severity;
  /** null for what concerns the period as a whole */
  readonly customerId: string | null;
  readonly message: string;
  readonly database: string;
  readonly provider: string;
  readonly temporal: string;
}

/** Whether a witness was heard to the end. `absent`: customers whose history Temporal no longer has. */
export type WitnessState =
  | {
      readonly status: 'read';
      readonly source: string;
      readonly records: number;
      readonly absent: number;
    }
  | { readonly status: 'unreadable'; readonly source: string; readonly reason: string }
  | { readonly status: 'not_asked'; readonly source: string };

export interface AuditReport {
  readonly verdict: Verdict;
  /** why the verdict is unknown, one sentence each; empty otherwise */
  readonly unknowns: readonly string[];
  readonly namespace: string;
  readonly period: string;
  readonly runState: string | null;
  readonly customers: number;
  readonly charged: number;
  readonly declined: number;
  /** in review included */
  readonly indeterminate: number;
  readonly skipped: number;
  readonly blocked: number;
  readonly misconfigured: number;
  /** claimed, sent, or not reached by a run that is not completed */
  readonly unfinished: number;
  readonly doubleCharged: number;
  readonly lost: number;
  /** what the database says was charged */
  readonly amountMinorByCurrency: Readonly<Record<string, number>>;
  readonly witnesses: {
    readonly database: WitnessState;
    readonly provider: WitnessState;
    readonly temporal: WitnessState;
  };
  /** the first of each severity, disagreements before the rest; `findingsTotal` counts them all */
  readonly findings: readonly Finding[];
  readonly findingsTotal: number;
  readonly findingsByKind: Readonly<Partial<Record<FindingKind, number>>>;
  readonly seconds: number;
}

/** The exit code for a report: 0 pass, 1 fail, 4 unknown. */
export function auditExitCode(report: Pick<AuditReport, 'verdict'>): number {
  return AUDIT_EXIT_CODES[report.verdict];
}
