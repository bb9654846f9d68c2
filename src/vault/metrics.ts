import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Db } from '../db/database.ts';
import type { AlertKind } from '../db/vault-alerts.ts';
import { listVaultKeys, readBudgets } from '../db/vault-keys.ts';
import { assertNever } from '../domain/assert-never.ts';
import type { VaultEvent } from './events.ts';
import { keyAnswer } from '../vault-key-answer.ts';

export interface VaultMetrics {
  /** Counts what happened; called in line. */
  count(event: VaultEvent): void;
  countAlert(kind: AlertKind): void;
  /** The text that Prometheus reads. The sums are read from the database at each scrape; two at once share one reading. */
  render(): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** Seconds: a local answer, Stripe's usual ones, and its slowest. */
const BUCKETS = [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6];
/** Keys whose sums are shown, newest first: each has a few series. */
const SHOWN_KEYS = 100;

const CAP_LABELS = ['key', 'currency'] as const;

/** Metrics of one vault process. No label holds a secret or anything that a client chooses freely. */
export function vaultMetrics(deps: { readonly db: Db; readonly now: () => Date }): VaultMetrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = <T extends string>(name: string, help: string, labelNames: readonly T[]) =>
    new Counter({ name: `chargeonce_vault_${name}`, help, labelNames, registers });
  const requests = counter('requests_total', 'Requests by what the vault decided', ['decision']);
  const answers = counter(
    'upstream_answers_total',
    "Stripe's answers by status; none: no answer came",
    ['status'],
  );
  const effects = counter('effects_total', 'What answers meant for the reservation', ['effect']);
  const alerts = counter('alerts_total', 'Alerts raised by this process', ['kind']);
  const faults = counter('faults_total', 'What of the vault itself broke', []);
  const inFlight = new Gauge({
    name: 'chargeonce_vault_in_flight',
    help: 'Requests forwarded and not answered yet',
    registers,
  });
  const latency = new Histogram({
    name: 'chargeonce_vault_upstream_seconds',
    help: "How long Stripe's answer took",
    buckets: BUCKETS,
    registers,
  });
  const sums = capGauges(registers);
  let reading: Promise<void> | undefined;
  return {
    count(event) {
      switch (event.kind) {
        case 'refused':
          requests.inc({ decision: event.code });
          return;
        case 'forwarded':
          requests.inc({ decision: 'forward' });
          inFlight.inc();
          return;
        case 'answered':
          inFlight.dec();
          answers.inc({ status: event.status === null ? 'none' : String(event.status) });
          effects.inc({ effect: event.effect ?? 'unwritten' });
          latency.observe(event.durationMs / 1000);
          return;
        case 'fault':
          faults.inc();
          return;
        case 'cap_crossed':
        case 'reply_mismatch':
          return;
        default:
          assertNever(event);
      }
    },
    countAlert(kind) {
      alerts.inc({ kind });
    },
    async render() {
      reading ??= readSums(deps, sums).finally(() => {
        reading = undefined;
      });
      await reading;
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}

type CapGauges = ReturnType<typeof capGauges>;

function capGauges(registers: Registry[]) {
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `chargeonce_vault_${name}`, help, labelNames: CAP_LABELS, registers });
  return {
    up: new Gauge({
      name: 'chargeonce_vault_database_up',
      help: '1 when the sums below were read, 0 when the database gave none',
      registers,
    }),
    cap: gauge('cap_minor', 'The cap, in minor units'),
    expected: gauge('expected_minor', 'What the plan expects, in minor units'),
    reserved: gauge('reserved_minor', 'Reserved and not settled, in minor units'),
    spent: gauge('spent_minor', 'Spent, in minor units'),
  };
}

/** Sums of the keys that can still be used; of a cap per day, today's. */
async function readSums(
  { db, now }: { readonly db: Db; readonly now: () => Date },
  gauges: CapGauges,
): Promise<void> {
  const { cap, expected, reserved, spent } = gauges;
  try {
    const at = now();
    const shown = (await listVaultKeys(db))
      .filter((key) => key.revokedAt === null && key.expiresAt > at)
      .slice(0, SHOWN_KEYS);
    const answers = [];
    for (const key of shown) answers.push(keyAnswer(key, await readBudgets(db, key.keyId), at));
    for (const gauge of [cap, expected, reserved, spent]) gauge.reset();
    for (const { id, caps } of answers) {
      for (const one of caps) {
        const labels = { key: id, currency: one.currency };
        cap.set(labels, one.cap);
        reserved.set(labels, one.reserved);
        spent.set(labels, one.spent);
        if (one.expected !== null) expected.set(labels, one.expected);
      }
    }
    gauges.up.set(1);
  } catch {
    for (const gauge of [cap, expected, reserved, spent]) gauge.reset();
    gauges.up.set(0);
  }
}
