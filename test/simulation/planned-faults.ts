import type { ActivityFault, DatabaseFault, Plan, PlannedCustomer, StripeFault } from './plan.ts';

/** Look-ups are all reads; a hidden customer's never succeed. */
const READS = ['retrieve', 'list'];

/** The plan's faults at work: each strikes where its counter stands, and is counted when it does. */
export class PlannedFaults {
  /** nothing new goes wrong; a hidden customer stays hidden */
  healed = false;
  readonly #plan: Plan;
  readonly #saw: (what: string) => void;
  readonly #counts = new Map<string, number>();
  readonly #hidden: ReadonlySet<string>;

  constructor(plan: Plan, saw: (what: string) => void) {
    this.#plan = plan;
    this.#saw = saw;
    const isHidden = ({ hidden }: PlannedCustomer): boolean => hidden;
    this.#hidden = new Set(plan.customers.filter(isHidden).map(({ id }) => id));
  }

  database(customer: string): DatabaseFault | null {
    const nth = this.#count(`database ${customer}`);
    for (const fault of this.#plan.faults) {
      if (fault.on !== 'database' || fault.customer !== customer || fault.nth !== nth) continue;
      if (this.healed) continue;
      this.#saw(`database fault ${fault.kind}`);
      return fault;
    }
    return null;
  }

  stripe(customer: string, endpoint: string): StripeFault | null {
    const nth = this.#count(`stripe ${customer} ${endpoint}`);
    if (this.#hidden.has(customer) && READS.some((read) => endpoint.endsWith(read))) {
      this.#saw('look-up hidden');
      return { on: 'stripe', customer, endpoint, nth, times: 1, kind: 'fail500', ms: 0 };
    }
    for (const fault of this.#plan.faults) {
      if (fault.on !== 'stripe' || fault.customer !== customer) continue;
      if (fault.endpoint !== endpoint || this.healed) continue;
      if (nth < fault.nth || nth >= fault.nth + fault.times) continue;
      this.#saw(`planned stripe ${fault.kind}`);
      return fault;
    }
    return null;
  }

  activity(customer: string, activity: string): ActivityFault | null {
    const nth = this.#count(`activity ${customer} ${activity}`);
    for (const fault of this.#plan.faults) {
      if (fault.on !== 'activity' || fault.customer !== customer) continue;
      if (fault.activity !== activity || fault.nth !== nth || this.healed) continue;
      if (fault.kind === 'twice' || fault.kind === 'resultLost')
        this.#saw(`activity ${fault.kind}`);
      return fault;
    }
    return null;
  }

  #count(place: string): number {
    const nth = (this.#counts.get(place) ?? 0) + 1;
    this.#counts.set(place, nth);
    return nth;
  }
}
