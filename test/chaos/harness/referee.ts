import {
  auditPeriod,
  simulatorLedgerWitness,
  temporalHistoryWitness,
} from '../../../src/audit/index.ts';
import { checkInvariants } from '../../support/invariants.ts';
import type { ChaosCustomer } from './customers.ts';
import type { LedgerEntry, LedgerGroup, RequestEntry } from '../../../src/simulator/index.ts';
import { lostItsAnswer } from './stripe-faults.ts';
import { judgeVault, type VaultJudgement } from './vault.ts';
import type { World } from './world.ts';

/** What the witnesses said, each read to its end, and counted three times by code that shares nothing. */
export interface Judgement {
  readonly charged: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly doubleCharged: number;
  readonly lost: number;
  readonly requests: number;
  readonly repliesLost: number;
  readonly requestsByStatus: Readonly<Record<string, number>>;
  readonly vault: Omit<VaultJudgement, 'violations'>;
  /** broken promises */
  readonly violations: readonly string[];
  /** what could not be read */
  readonly unknowns: readonly string[];
}

const FINAL: ReadonlySet<string> = new Set([
  'charged',
  'declined',
  'blocked',
  'skipped',
  'misconfigured',
]);
const SHOWN = 20;

/** Reads database, provider and histories when all is at rest. */
export async function judge(world: World, customers: readonly ChaosCustomer[]): Promise<Judgement> {
  const [entries, groups, requests] = await Promise.all([
    world.stripe.ledger(),
    world.stripe.groups(),
    world.stripe.requests(),
  ]);
  const own = await countOurselves(world, { customers, groups });
  const audit = await auditPeriod({
    databaseUrl: world.databaseUrl,
    run: world.run,
    provider: simulatorLedgerWitness(world.stripe.url),
    temporal: temporalHistoryWitness(world.client.temporal),
  });
  const invariants = await checkInvariants({
    databaseUrl: world.databaseUrl,
    simulator: asRead({ entries, groups, requests }),
    // The audit hears the histories; twice would take as long again.
    temporal: null,
    run: world.run,
    faultsFired: false,
  });
  const findings = audit.findings.map(
    ({ kind, severity, customerId, message }) =>
      `audit: ${severity} ${kind} ${customerId ?? ''}: ${message}`,
  );
  const vault = await judgeVault(world, groups);
  const violations = [...own.violations, ...invariants.violations, ...vault.violations];
  if (audit.verdict === 'fail') violations.push(...findings);
  const unknowns = [...invariants.unknowns];
  if (audit.verdict === 'unknown') unknowns.push(...audit.unknowns, ...findings);
  return {
    charged: own.outcomes['charged'] ?? 0,
    outcomes: own.outcomes,
    doubleCharged: Math.max(own.doubleCharged, audit.doubleCharged),
    lost: Math.max(own.lost, audit.lost),
    requests: requests.length,
    repliesLost: requests.filter((request) => lostItsAnswer(request)).length,
    requestsByStatus: countBy(
      requests.map(({ status }) => (status === 0 ? 'no answer' : String(status))),
    ),
    vault,
    violations: shortened(violations),
    unknowns: shortened(unknowns),
  };
}

async function countOurselves(
  world: World,
  read: { customers: readonly ChaosCustomer[]; groups: readonly LedgerGroup[] },
) {
  const slots = await world.query<{ customer_id: string; state: string; reason: string | null }>(
    'select customer_id, state::text, reason from billing_charges where namespace = $1 and period = $2',
    [world.run.namespace, world.run.period],
  );
  const state = new Map(slots.map((slot) => [slot.customer_id, slot]));
  const paid = new Map<string, number>();
  for (const group of read.groups) {
    paid.set(group.customer, (paid.get(group.customer) ?? 0) + group.succeeded);
  }
  const violations: string[] = [];
  let lost = 0;
  for (const { id, mayEnd, paymentMethod } of read.customers) {
    const slot = state.get(id);
    const times = paid.get(id) ?? 0;
    const ended = slot !== undefined && FINAL.has(slot.state);
    const said = `${slot?.state ?? 'without a slot'} (${slot?.reason ?? '-'})`;
    if (!ended) {
      lost += 1;
      violations.push(`lost: ${id} (${paymentMethod}) is ${said}`);
    } else if (!mayEnd.includes(slot.state)) {
      violations.push(`wrong: ${id} (${paymentMethod}) ended ${said}`);
    }
    if (times > 1) violations.push(`charged twice: ${id} was paid ${times} times`);
    if (ended && (slot.state === 'charged') !== (times === 1)) {
      violations.push(`differs: ${id} is ${said} and was paid ${times} times`);
    }
  }
  const doubleCharged = [...paid.values()].filter((times) => times > 1).length;
  return { outcomes: countBy(slots.map((slot) => slot.state)), doubleCharged, lost, violations };
}

/** The simulator as the second checker knows it, but read over the wire. */
function asRead(read: {
  entries: LedgerEntry[];
  groups: LedgerGroup[];
  requests: RequestEntry[];
}): Parameters<typeof checkInvariants>[0]['simulator'] {
  return {
    ledger: () => ({ entries: read.entries, groups: read.groups }),
    requests: () => read.requests,
    counters: () => ({ faults: [] }),
  };
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

function shortened(lines: readonly string[]): string[] {
  if (lines.length <= SHOWN) return [...lines];
  return [...lines.slice(0, SHOWN), `… and ${lines.length - SHOWN} more`];
}
