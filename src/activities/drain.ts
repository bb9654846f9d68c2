import { setTimeout as sleep } from 'node:timers/promises';
import { FAILURES } from '../domain/failures.ts';
import { customerWorkflowId, type SlotRef } from '../domain/ids.ts';
import type { FrozenSend, PaymentGateway } from '../payments/gateway.ts';
import type { ActivityDeps } from './deps.ts';
import { tryAgain } from './errors.ts';
import type { BillingActivities, ChargeActivities } from './index.ts';

export interface DrainTimes {
  /** how long a stopping worker lets its charges finish */
  readonly graceMs: number;
  /** how long Stripe may take to answer one request */
  readonly answerMs: number;
}

/** A retry by the policy's own pauses would leave the customer waiting; another worker is there now. */
const HAND_OVER_MS = 100;
const POLL_MS = 20;

/**
 * What a worker does with its charges once it is asked to stop. A charge under way goes on as long as an answer to its
 * next request is sure to arrive within the grace, and ends normally; later, or when it has sent nothing yet, it is
 * handed over: another worker goes on at once with the same key. So no request is ever cut off.
 */
export class Drain {
  readonly #times: DrainTimes;
  #stopsAt: number | null = null;
  readonly #unrecorded = new Set<string>();

  constructor(times: DrainTimes) {
    this.#times = times;
  }

  /** The worker is asked to stop. Twice: the first time counts. */
  begin(): void {
    this.#stopsAt ??= performance.now() + this.#times.graceMs;
  }

  /** The activities' world, with a check before each charge and before each request to Stripe. */
  guard(deps: ActivityDeps): ActivityDeps {
    return {
      ...deps,
      pace: async () => {
        this.#refuseNew();
        await deps.pace();
        this.#refuseNew();
      },
      gateway: this.#guardGateway(deps.gateway),
      vault: this.#guardVault(deps.vault),
    };
  }

  /** Remembers charges that end while stopping, until they are recorded. */
  watchCharges(activities: ChargeActivities): ChargeActivities {
    return {
      ...activities,
      charge: async (order) => {
        const charged = await activities.charge(order);
        if (this.#stopsAt !== null) this.#unrecorded.add(customerWorkflowId(order));
        return charged;
      },
    };
  }

  watchRecords(activities: BillingActivities): BillingActivities {
    return {
      ...activities,
      record: async (slot: SlotRef, charged) => {
        const recorded = await activities.record(slot, charged);
        this.#unrecorded.delete(customerWorkflowId(slot));
        return recorded;
      },
    };
  }

  /** Waits until what was charged while stopping is recorded; not longer, since another worker may do it. */
  async recorded(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    while (this.#unrecorded.size > 0 && performance.now() < deadline) await sleep(POLL_MS);
  }

  #guardVault(vault: ActivityDeps['vault']): ActivityDeps['vault'] {
    if (vault === null) return null;
    return { ...vault, gatewayOf: (run) => this.#guardGateway(vault.gatewayOf(run)) };
  }

  #guardGateway(gateway: PaymentGateway): PaymentGateway {
    const send = (frozen: FrozenSend): FrozenSend => ({
      ...frozen,
      onResend: async (resend) => {
        this.#refuseLate();
        await frozen.onResend(resend);
      },
    });
    return {
      ...gateway,
      createPaymentIntent: async (frozen) => {
        this.#refuseLate();
        return gateway.createPaymentIntent(send(frozen));
      },
      confirmPaymentIntent: async (id, frozen) => {
        this.#refuseLate();
        return gateway.confirmPaymentIntent(id, send(frozen));
      },
      retrievePaymentIntent: async (id) => {
        this.#refuseLate();
        return gateway.retrievePaymentIntent(id);
      },
      listPaymentIntents: async (query) => {
        this.#refuseLate();
        return gateway.listPaymentIntents(query);
      },
      listChargesOf: async (id) => {
        this.#refuseLate();
        return gateway.listChargesOf(id);
      },
      listEvents: async (query) => {
        this.#refuseLate();
        return gateway.listEvents(query);
      },
    };
  }

  #refuseNew(): void {
    if (this.#stopsAt !== null) throw handOver();
  }

  #refuseLate(): void {
    if (this.#stopsAt === null) return;
    if (performance.now() + this.#times.answerMs > this.#stopsAt) throw handOver();
  }
}

function handOver(): Error {
  return tryAgain(
    FAILURES.workerStopping,
    'this worker is being stopped: another one goes on with the same key',
    HAND_OVER_MS,
  );
}
