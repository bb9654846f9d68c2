import { activityInfo } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { BillingActivities, ChargeActivities } from '../../src/activities/index.ts';
import { claimAnswerOf } from '../../src/db/slots.ts';
import {
  NO_OUTCOMES,
  type ChargeOutcome,
  type ChargeResult,
  type ReconcileAnswer,
  type RerunAnswer,
  type SlotState,
} from '../../src/domain/charge.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { countOutcome } from '../../src/domain/outcome-counts.ts';
import type { SweepReport } from '../../src/domain/sweep.ts';
import type { RunState } from '../../src/db/runs.ts';
import { runRef, slotRef } from './names.ts';

/** Whatever a scripted call does: return, throw, or wait. `call` counts the calls for this customer from 1. */
export type ChargeScript = (order: {
  readonly customerId: string;
  readonly generation: number;
  readonly call: number;
}) => ChargeOutcome | Promise<ChargeOutcome>;

export interface FakeSlot {
  state: SlotState;
  generation: number;
  reason: string | null;
}

export interface Call {
  readonly name: string;
  readonly customerId: string | null;
  readonly generation: number | null;
  readonly attempt: number;
}

export const CHARGED: ChargeOutcome = {
  outcome: 'charged',
  paymentIntentId: 'pi_1',
  chargeId: 'ch_1',
  amountMinor: 1500,
  currency: 'usd',
};
export const DECLINED: ChargeOutcome = {
  outcome: 'declined',
  paymentIntentId: 'pi_1',
  declinedChargeId: 'ch_no',
  reason: 'insufficient_funds',
  advice: 'try_again_later',
};

/** "Try again", as the real charge throws it. */
export function lost(): ApplicationFailure {
  return ApplicationFailure.create({ type: 'ChargeIndeterminate', message: 'reply lost' });
}

/**
 * A run's database and Stripe in memory, behind the types of the real activities: for workflow tests,
 * which are about who is called when, not about what a statement or Stripe does.
 */
export class FakeWorld {
  readonly slots = new Map<string, FakeSlot>();
  readonly calls: Call[] = [];
  readonly moves: RunState[] = [];
  readonly orders: string[] = [];
  readonly sweeps: SweepReport[] = [];
  /** the run was paused or stopped, as the sweep is told */
  held = false;
  readonly answers = new Map<string, RerunAnswer>();
  readonly customers: readonly string[];
  /** places in the plan, when most of them are empty: for the shape of large runs */
  places: number | null = null;
  state: RunState | null = null;
  pauses: readonly number[] = [60_000, 300_000];
  charge: ChargeScript = () => CHARGED;
  reconcile: (customerId: string, call: number) => ReconcileAnswer | Promise<ReconcileAnswer> =
    () => ({
      kind: 'unknown',
      reason: 'not told',
      because: 'cannotTell',
    });
  /** throws or waits instead of an activity's own work */
  before: (name: string, call: number) => void | Promise<void> = () => {};

  constructor(customers: readonly string[]) {
    this.customers = customers;
  }

  count(name: string, customerId?: string): number {
    return this.calls.filter(
      (call) => call.name === name && (customerId === undefined || call.customerId === customerId),
    ).length;
  }

  /** Customers that nobody has finished, as the real list finds them. */
  open(): string[] {
    return this.customers.filter((id) => {
      const slot = this.slots.get(id);
      return slot === undefined || ['claimed', 'sent', 'indeterminate'].includes(slot.state);
    });
  }

  async #enter(
    name: string,
    slot: { customerId?: string; generation?: number } = {},
  ): Promise<number> {
    const customerId = slot.customerId ?? null;
    const call: Call = {
      name,
      customerId,
      generation: slot.generation ?? null,
      attempt: activityInfo().attempt,
    };
    this.calls.push(call);
    const count = this.count(name, customerId ?? undefined);
    await this.before(name, count);
    return count;
  }

  #slot(customerId: string): FakeSlot {
    const slot = this.slots.get(customerId);
    if (slot === undefined) throw ApplicationFailure.nonRetryable('no slot', 'InvariantBroken');
    return slot;
  }

  readonly billing: BillingActivities = {
    claimSlot: async (order) => {
      await this.#enter('claimSlot', order);
      if (!this.customers.includes(order.customerId)) {
        throw ApplicationFailure.nonRetryable('not in the plan', 'RunNotPlanned');
      }
      const slot = this.slots.get(order.customerId);
      if (order.unlessHeld === true && this.held) return { kind: 'held' };
      if (slot !== undefined) return claimAnswerOf(slot);
      this.slots.set(order.customerId, { state: 'claimed', generation: 1, reason: null });
      return { kind: 'claimed', generation: 1 };
    },
    record: async (order, charged) => {
      await this.#enter('record', { ...order, generation: charged.generation });
      const slot = this.#slot(order.customerId);
      const { outcome } = charged.result;
      if (slot.generation === charged.generation && slot.state !== 'charged') {
        slot.state = outcome;
        slot.reason = charged.result.outcome === 'charged' ? null : charged.result.reason;
      }
      return { outcome: slot.state === 'charged' ? 'charged' : outcome };
    },
    planRun: async () => {
      await this.#enter('planRun');
      this.state ??= 'planned';
      return {
        state: this.state,
        customerCount: this.places ?? this.customers.length,
        reconcilePausesMs: this.pauses,
      };
    },
    readPlan: async () => {
      await this.#enter('readPlan');
      if (this.state === null) return null;
      return {
        state: this.state,
        customerCount: this.places ?? this.customers.length,
        reconcilePausesMs: this.pauses,
      };
    },
    moveRun: async (_run, state) => {
      await this.#enter(`moveRun.${state}`);
      if (this.state === 'completed') return;
      this.state = state;
      this.moves.push(state);
    },
    listShard: async (_run, range) => {
      await this.#enter('listShard');
      return this.customers.slice(range.after, range.upTo).map((id) => ({
        customerId: slotRef(id).customerId,
        amountMinor: 1500,
        currency: 'usd',
      }));
    },
    listOpen: async (_run, page) => {
      await this.#enter('listOpen');
      return this.open()
        .filter((id) => id > page.after)
        .slice(0, page.limit)
        .map((id) => slotRef(id).customerId);
    },
    readTotals: async () => {
      await this.#enter('readTotals');
      let counts = NO_OUTCOMES;
      for (const { state } of this.slots.values()) {
        if (state !== 'claimed' && state !== 'sent' && state !== 'in_review')
          counts = countOutcome(counts, state);
      }
      return {
        customers: this.customers.length,
        counts,
        open: this.open().length,
        chargedMinorByCurrency: { usd: counts.charged * 1500 },
      };
    },
    decideRerun: async (order) => {
      await this.#enter('decideRerun', order);
      const seen = this.answers.get(order.requestId);
      if (seen !== undefined) return seen;
      const answer = this.#decide(order.customerId);
      this.answers.set(order.requestId, answer);
      return answer;
    },
    listSweep: async (page) => {
      await this.#enter('listSweep');
      const { namespace, period } = runRef();
      return this.open()
        .filter((id) => id > (page.after?.customerId ?? ''))
        .slice(0, page.limit)
        .map((id) => ({
          namespace,
          period,
          customerId: slotRef(id).customerId,
          readOnly: this.held,
        }));
    },
    noteSweep: async (report) => {
      await this.#enter('noteSweep');
      this.sweeps.push(report);
    },
    purge: async () => {
      await this.#enter('purge');
      return { purged: 3 };
    },
    logOrder: async (_run: RunRef, order) => {
      await this.#enter('logOrder');
      this.orders.push(`${order.action} by ${order.operator}`);
      const blocked = [...this.slots.values()].filter(({ state }) => state === 'blocked');
      if (order.action !== 'run.resumed') return { unblocked: 0 };
      for (const slot of blocked) Object.assign(slot, { state: 'sent', reason: null });
      return { unblocked: blocked.length };
    },
  };

  readonly charging: ChargeActivities = {
    charge: async (order): Promise<ChargeResult> => {
      const call = await this.#enter('charge', order);
      const slot = this.#slot(order.customerId);
      slot.state = 'sent';
      const { customerId, generation } = order;
      const result = await this.charge({ customerId, generation, call });
      return { generation, result, answer: null };
    },
    look: async (slot): Promise<ReconcileAnswer> => {
      const call = await this.#enter('look', slot);
      return this.reconcile(slot.customerId, call);
    },
    reconcile: async (order): Promise<ReconcileAnswer> => {
      const call = await this.#enter('reconcile', order);
      return this.reconcile(order.customerId, call);
    },
  };

  #decide(customerId: string): RerunAnswer {
    if (!this.customers.includes(customerId)) return 'unknownCustomer';
    const slot = this.slots.get(customerId);
    switch (slot?.state) {
      case 'charged':
        return 'alreadyCharged';
      case 'declined':
      case 'misconfigured':
        slot.generation += 1;
        slot.state = 'claimed';
        return 'accepted';
      case undefined:
      case 'claimed':
      case 'blocked':
      case 'skipped':
        return 'accepted';
      case 'sent':
      case 'indeterminate':
      case 'in_review':
        return 'inDoubt';
      default:
        throw new Error('unknown state');
    }
  }
}
