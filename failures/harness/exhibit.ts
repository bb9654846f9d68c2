import type { OursWorld } from './ours-world.ts';
import type { TemptingWorld } from './tempting-world.ts';

/** Who is to be charged, once, in the period of an exhibit. */
export interface Customer {
  readonly id: string;
  /** at Stripe, `cus_…` */
  readonly stripeCustomer: string;
  /** `pm_…` */
  readonly paymentMethod: string;
  readonly amountMinor: number;
  readonly currency: string;
}

/** What any code that charges has to know. */
export interface Shop {
  /** Stripe's address; here always a simulator on this machine */
  readonly stripeUrl: string;
  readonly apiKey: string;
  readonly period: string;
  readonly customers: readonly Customer[];
}

/** The letters of the gallery's rooms: client machinery, retried functions, fan-out, schedulers, keys, backstop, HTTP. */
export type Room = 'A' | 'B' | 'C' | 'D' | 'E' | 'F' | 'G';

/** What goes wrong for a customer. */
type Harm = 'chargedAgain' | 'missed' | 'wrongAmount';

/**
 * One known way to charge twice, or not at all. `tempting` has to do harm, `fixed` and `ours` must not: each is run
 * against a Stripe simulator of its own, and the simulator's ledger says what came of it.
 */
export interface Exhibit {
  readonly number: number;
  /** its name on the command line and of its page, `docs/failures/<number>-<name>.md` */
  readonly name: string;
  readonly room: Room;
  /** the situation, in one line */
  readonly title: string;
  /** what it comes down to, in one line */
  readonly rule: string;
  /** the harm that the tempting code does; it has to be seen in every run */
  readonly harm: Harm;
  /** how many customers it has to harm; 1 unless said */
  readonly harmed?: number;
  /** how many customers are due; 1 unless said */
  readonly customers?: number;
  readonly tempting: (world: TemptingWorld) => Promise<void>;
  /** the same code with the rule kept, where that is enough */
  readonly fixed?: (world: TemptingWorld) => Promise<void>;
  /** the same situation, through chargeonce */
  readonly ours: (world: OursWorld) => Promise<void>;
  /** beyond one charge for each customer: what has to be true of ours. Throws when it is not. */
  readonly oursAlso?: (world: OursWorld) => Promise<void>;
  /** ours is held to `oursAlso` alone: it stops the money, and cannot charge everybody once */
  readonly onlyAlso?: true;
}
