// One seed's world: the real workflows, activities and SQL between a Temporal, a PostgreSQL and a Stripe
// that behave as badly as the plan says, all on virtual time.
import { createHash } from 'node:crypto';
import { createBillingActivities, createChargeActivities } from '../../src/activities/index.ts';
import type { ActivityDeps } from '../../src/activities/deps.ts';
import { HOUSEKEEPING_ID } from '../../src/domain/ids.ts';
import { housekeeping } from '../../src/workflows/housekeeping.ts';
import { runRef } from '../support/names.ts';
import { SimulatedDatabase, type SimulatedPostgres } from './database.ts';
import { Executor } from './executor.ts';
import type { Fiber } from './fiber.ts';
import { carryOut, lookAt } from './orders.ts';
import type { Order, Plan, WorldFault } from './plan.ts';
import { plantIn } from './plants.ts';
import { PlannedFaults } from './planned-faults.ts';
import { ACCOUNT, SimulatedStripe } from './stripe-wire.ts';
import { lot, useTime, VirtualTime } from './virtual-time.ts';

const START_MS = Date.UTC(2026, 8, 1, 6);
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** The pauses and the quiet time that src/config.ts sets by default. */
const RECONCILE_PAUSES_MS = [1, 5, 30, 120, 360].map((minutes) => minutes * MINUTE);
const ABSENCE_QUIET_MS = HOUR;
/** After healing, everything that can be known is known within this. */
const HEAL_LIMIT_MS = 100 * HOUR;
/** A transaction that stops talking is ended by the server (idle_in_transaction_session_timeout). */
const IDLE_IN_TRANSACTION_MS = 10 * SECOND;

export const RUN = runRef('2026-09', 'base');

/** What a world leaves behind for the checker. */
export interface Outcome {
  readonly plan: Plan;
  readonly stripe: SimulatedStripe;
  readonly problems: readonly string[];
  readonly seen: ReadonlyMap<string, number>;
  readonly lines: readonly string[];
  readonly hash: string;
  readonly virtualMs: number;
}

export interface WorldOptions {
  readonly keepLines: boolean;
  /** the name of a bug to plant; none in earnest */
  readonly plant?: string | undefined;
}

interface Row {
  readonly customer_id?: string;
  readonly state?: string | null;
}

export class World {
  readonly plan: Plan;
  readonly time: VirtualTime;
  readonly faults: PlannedFaults;
  readonly database: SimulatedDatabase;
  readonly stripe: SimulatedStripe;
  readonly executor: Executor;
  databaseDown = false;
  stripeDown = false;
  readonly #postgres: SimulatedPostgres;
  readonly #seen = new Map<string, number>();
  readonly #problems: string[] = [];
  readonly #lines: string[] = [];
  readonly #keepLines: boolean;
  readonly #told = new Set<string>();
  readonly #hash = createHash('sha256');

  constructor(plan: Plan, postgres: SimulatedPostgres, options: WorldOptions) {
    this.plan = plan;
    this.#postgres = postgres;
    this.#keepLines = options.keepLines;
    this.time = new VirtualTime(START_MS);
    useTime(this.time);
    this.faults = new PlannedFaults(plan, (what) => this.saw(what));
    this.database = new SimulatedDatabase(this, postgres);
    this.stripe = new SimulatedStripe(this);
    const deps: ActivityDeps = {
      db: this.database.db,
      gateway: plantIn(this.stripe.gateway, options.plant),
      vault: null,
      account: ACCOUNT,
      mode: 'test',
      worker: 'simulation',
      pace: async () => {},
      reconcilePausesMs: RECONCILE_PAUSES_MS,
      absenceQuietMs: ABSENCE_QUIET_MS,
      // No HTTP server stands in this world.
      storedResponses: { purge: async () => 0 },
      crashPoint: async () => {},
      requireEnvironment: async () => {},
    };
    this.executor = new Executor(this, {
      ...createBillingActivities(deps),
      ...createChargeActivities(deps),
    });
  }

  /** Lets the plan happen, heals, and waits until nothing moves any more. */
  async run(): Promise<Outcome> {
    await this.#postgres.empty();
    await this.#import();
    for (const order of this.plan.orders) this.time.after(order.atMs, () => this.#order(order));
    for (const fault of this.plan.faults) {
      if (fault.on === 'world') this.time.after(fault.atMs, () => this.#break(fault));
    }
    await this.#hours(this.plan.healsAtMs);
    this.trace('— heals —');
    this.faults.healed = true;
    this.databaseDown = false;
    this.stripeDown = false;
    const healedMs = this.time.nowMs;
    do {
      await this.#hours(HOUR);
    } while (this.time.nowMs < healedMs + HEAL_LIMIT_MS && !(await this.#isQuiet()));
    return {
      plan: this.plan,
      stripe: this.stripe,
      problems: this.#problems,
      seen: this.#seen,
      lines: this.#lines,
      hash: this.#hash.digest('hex').slice(0, 16),
      virtualMs: this.time.nowMs - START_MS,
    };
  }

  /** A number in [0, 1) for a place in this world. */
  lot(place: string): number {
    return lot(`${this.plan.seed} ${place}`);
  }

  saw(what: string): void {
    this.#seen.set(what, (this.#seen.get(what) ?? 0) + 1);
  }

  sawAnswer(activity: string, value: unknown): void {
    if (typeof value !== 'object' || value === null) {
      if (activity === 'decideRerun') this.saw(`rerun ${String(value)}`);
      return;
    }
    if ('kind' in value && typeof value.kind === 'string') this.saw(`${activity} ${value.kind}`);
    if ('because' in value && typeof value.because === 'string') {
      this.saw(`${activity} ${value.because}`);
    }
  }

  trace(text: string): void {
    const line = `${stamp(this.time.nowMs - START_MS)} ${text}`;
    this.#hash.update(line);
    if (this.#keepLines) this.#lines.push(line);
  }

  /** A workflow ended with a failure. Only what an order asked for in vain may do so. */
  workflowFailed(id: string, error: unknown): void {
    const said = chainOf(error);
    this.trace(`${id} workflow FAILS: ${said}`);
    // A late order that found no plan, or a run that was cut off, says so by failing (billing-run.ts).
    const expected = /has not been billed yet|was cut off while|is open and has planned nothing/;
    if (expected.test(said)) this.saw('order for a run that is not there');
    else this.#problems.push(`I8: workflow ${id} failed: ${said}`);
  }

  /** One call of an activity to the outside: it travels, takes effect, and its answer travels back. */
  async portCall<T>(fiber: Fiber, name: string, effect: () => Promise<T>): Promise<T> {
    fiber.calls += 1;
    const call = fiber.calls;
    await fiber.gate(this.time);
    await this.#strike(fiber, { call, when: 'before' });
    await this.time.sleep(1 + 60 * this.lot(`${fiber.id} ${call} out`) ** 3);
    this.trace(`${fiber.id} ${name}`);
    let answer: () => T;
    try {
      const value = await effect();
      answer = () => value;
    } catch (error) {
      this.trace(`${fiber.id} ${name} fails: ${error instanceof Error ? error.message : '?'}`);
      answer = () => {
        throw error;
      };
    }
    await this.time.sleep(1 + 60 * this.lot(`${fiber.id} ${call} back`) ** 3);
    await this.#strike(fiber, { call, when: 'after' });
    await fiber.gate(this.time);
    return answer();
  }

  async #strike(fiber: Fiber, at: { call: number; when: 'before' | 'after' }): Promise<void> {
    const { strike } = fiber;
    if (strike === null || strike.call !== at.call || strike.when !== at.when) return;
    if (this.faults.healed) return;
    this.saw(`activity ${strike.kind}`);
    this.trace(`${fiber.id} is ${strike.kind} ${at.when} call ${at.call}`);
    if (strike.kind === 'killed') this.executor.kill(fiber);
    else {
      fiber.freeze(this.time.nowMs + strike.forMs);
      if (strike.forMs >= IDLE_IN_TRANSACTION_MS) {
        this.time.after(IDLE_IN_TRANSACTION_MS, () => this.database.abandon(fiber));
      }
    }
    await fiber.gate(this.time);
    this.saw('frozen activity woke up');
    this.trace(`${fiber.id} wakes up`);
  }

  async #import(): Promise<void> {
    const { pg } = this.#postgres;
    await pg.query('INSERT INTO environment (stripe_account, live_mode) VALUES ($1, false)', [
      ACCOUNT,
    ]);
    for (const { id, paymentMethod, amountMinor, currency } of this.plan.customers) {
      await pg.query(
        `INSERT INTO customers (customer_id, stripe_customer_id, payment_method_id, amount_minor, currency)
         VALUES ($1, $2, $3, $4, $5)`,
        [id, `cus_${id}`, paymentMethod, amountMinor, currency],
      );
    }
  }

  /** Goes on for so long, with the hourly sweep. */
  async #hours(forMs: number): Promise<void> {
    const until = this.time.nowMs + forMs;
    for (;;) {
      const next = (Math.floor((this.time.nowMs - START_MS) / HOUR) + 1) * HOUR + START_MS;
      await this.time.runUntil(Math.min(next, until));
      if (next > until) return;
      this.#background(() => this.#sweep());
      this.#background(() => this.#tellOfLateSuccesses());
    }
  }

  async #sweep(): Promise<void> {
    if (this.executor.isOpen(HOUSEKEEPING_ID) || !(await this.#hasOpenSlot())) return;
    await this.executor.start(housekeeping, {
      workflowId: HOUSEKEEPING_ID,
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      args: [],
    });
    this.saw('sweep');
  }

  /**
   * A zombie's confirm may succeed days after its slot was settled otherwise. Only Stripe's event tells of
   * that one; every other success has to be found without events.
   */
  async #tellOfLateSuccesses(): Promise<void> {
    for (const { customer, byZombie } of this.stripe.sends) {
      if (!byZombie || this.#told.has(customer) || !this.stripe.hasPaid(customer)) continue;
      this.#told.add(customer);
      this.saw('zombie sent');
      this.#background(async () => {
        this.#told.delete(customer);
        await lookAt(this, customer);
        this.#told.add(customer);
      });
    }
  }

  /** A sweep that would find nothing is left out: most hours of most worlds are quiet. */
  async #hasOpenSlot(): Promise<boolean> {
    const rows = await this.ask(
      `SELECT FROM billing_charges WHERE state IN ('claimed', 'sent', 'indeterminate', 'in_review')
         AND coalesce(looked_at, updated_at) < now() - interval '45 minutes' LIMIT 1`,
    );
    return rows.length > 0;
  }

  /** The harness's own look at the tables; takes no virtual time. */
  async ask(sql: string, parameters: unknown[] = []): Promise<readonly Row[]> {
    this.time.busy += 1;
    try {
      return (await this.#postgres.pg.query<Row>(sql, parameters)).rows;
    } finally {
      this.time.busy -= 1;
    }
  }

  /** No workflow is open and every slot has its answer, but those Stripe was forbidden to give one for. */
  async #isQuiet(): Promise<boolean> {
    if (this.executor.openWorkflows.length > 0 || this.executor.fibers.size > 0) return false;
    const rows = await this.ask(
      `SELECT customer_id, c.state FROM billing_items LEFT JOIN billing_charges c USING (namespace, period, customer_id)
       WHERE c.state IS NULL OR c.state IN ('claimed', 'sent', 'indeterminate', 'in_review')`,
    );
    const items = await this.ask('SELECT FROM billing_items');
    const settledRun = await this.ask(`SELECT FROM billing_runs WHERE state = 'completed'`);
    if (items.length === 0 || settledRun.length === 0) return false;
    return rows.every(({ customer_id, state }) => {
      const customer = this.plan.customers.find(({ id }) => id === customer_id);
      return state === 'in_review' && customer !== undefined && evidenceIsGone(customer);
    });
  }

  #break(fault: WorldFault): void {
    this.saw(`world ${fault.kind}`);
    this.trace(`— ${fault.kind} —`);
    switch (fault.kind) {
      case 'databaseDown':
        this.databaseDown = true;
        this.database.abandon(null);
        this.time.after(fault.forMs, () => {
          this.databaseDown = false;
        });
        return;
      case 'stripeDown':
        this.stripeDown = true;
        this.time.after(fault.forMs, () => {
          this.stripeDown = false;
        });
        return;
      case 'workerKilled':
        this.executor.killWorker(Math.floor(this.lot(`worker dies ${fault.atMs}`) * 2));
        return;
      case 'temporalForgets':
        this.executor.forget();
    }
  }

  #order(order: Order): void {
    this.trace(`order ${order.order}${'customer' in order ? ` ${order.customer}` : ''}`);
    this.saw(`order ${order.order}`);
    this.#background(() => carryOut(this, order));
  }

  /** An order nobody waits for; what it could not do is its caller's business. */
  #background(work: () => Promise<void>): void {
    work().catch((error: unknown) => {
      this.trace(`order refused: ${chainOf(error)}`);
      this.saw('order refused');
    });
  }
}

/** Stripe cannot say, or says something only a person can read. */
export function evidenceIsGone(customer: {
  readonly hidden: boolean;
  readonly paymentMethod: string | null;
}): boolean {
  return customer.hidden || customer.paymentMethod === 'pm_card_chargeDeclinedDuplicateTransaction';
}

function chainOf(error: unknown): string {
  const said: string[] = [];
  let at: unknown = error;
  while (at instanceof Error) {
    said.push(at.message);
    at = at.cause;
  }
  return said.join(' ← ') || String(error);
}

function stamp(ms: number): string {
  const whole = Math.floor(ms);
  const pad = (value: number, digits = 2): string => String(value).padStart(digits, '0');
  const hours = Math.floor(whole / HOUR);
  const minutes = Math.floor(whole / MINUTE) % 60;
  const seconds = Math.floor(whole / SECOND) % 60;
  return `${pad(hours, 3)}:${pad(minutes)}:${pad(seconds)}.${pad(whole % SECOND, 3)}`;
}
