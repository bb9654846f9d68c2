import { startSimulator } from '../../src/simulator/index.ts';
import { runAll } from '../../src/undo.ts';
import type { Customer, Exhibit, Shop } from './exhibit.ts';
import type { House } from './house.ts';
import { inWords, isRight, outcomeOf, type Outcome } from './judge.ts';
import { oursWorld } from './ours-world.ts';
import { temptingWorld } from './tempting-world.ts';

/** One way to do it, and what came of it. */
interface Tried {
  readonly outcome: Outcome;
  /** null when it came to what it had to come to */
  readonly problem: string | null;
}

export interface Shown {
  readonly exhibit: Exhibit;
  /** has to do its harm */
  readonly tempting: Tried;
  /** has to do none; null where there is no fix short of ours */
  readonly fixed: Tried | null;
  readonly ours: Tried;
}

const AMOUNT_MINOR = 2_000;
/** One exhibit that hangs must not take the gallery with it. */
const EXHIBIT_TIMEOUT_MS = 60_000;
/** Nor may what it leaves behind: a pool whose connection nobody gives back never ends. */
const UNDO_TIMEOUT_MS = 15_000;

/** Runs the exhibit in all its ways, each against a Stripe of its own. */
export async function show(exhibit: Exhibit, house: House): Promise<Shown> {
  return {
    exhibit,
    tempting: await tryTempting(exhibit, house, 'tempting'),
    fixed: exhibit.fixed === undefined ? null : await tryTempting(exhibit, house, 'fixed'),
    ours: await tryOurs(exhibit, house),
  };
}

async function tryTempting(
  exhibit: Exhibit,
  house: House,
  way: 'tempting' | 'fixed',
): Promise<Tried> {
  return withStripe(exhibit, house, async ({ shop, stripe, undo }) => {
    const world = temptingWorld({ shop, stripe, undo, newDatabase: () => house.emptyDatabase() });
    const thrown = await within(exhibit[way]?.(world));
    const outcome = outcomeOf(stripe, shop.customers);
    // Careless code often ends in an error as well; the harm is what counts.
    const ended = thrown === null ? '' : `, and it ended with: ${thrown}`;
    if (way === 'tempting') {
      const harmless = `did too little harm (${exhibit.harm} was to be seen): ${inWords(outcome)}${ended}`;
      return { outcome, problem: outcome[exhibit.harm] >= (exhibit.harmed ?? 1) ? null : harmless };
    }
    const wrong = isRight(outcome) ? null : `is no fix: ${inWords(outcome)}${ended}`;
    return { outcome, problem: wrong };
  });
}

async function tryOurs(exhibit: Exhibit, house: House): Promise<Tried> {
  return withStripe(exhibit, house, async ({ shop, stripe, undo }) => {
    const world = await oursWorld({ shop, stripe, house, undo });
    const thrown = (await within(exhibit.ours(world))) ?? (await within(exhibit.oursAlso?.(world)));
    const outcome = outcomeOf(stripe, shop.customers);
    if (thrown !== null) return { outcome, problem: `ended with: ${thrown}` };
    if (exhibit.onlyAlso === true || isRight(outcome)) return { outcome, problem: null };
    return { outcome, problem: `did not hold: ${inWords(outcome)}` };
  });
}

interface Stage {
  readonly shop: Shop;
  readonly stripe: Awaited<ReturnType<typeof startSimulator>>;
  readonly undo: (() => Promise<void>)[];
}

async function withStripe<T>(
  exhibit: Exhibit,
  house: House,
  work: (stage: Stage) => Promise<T>,
): Promise<T> {
  const stripe = await startSimulator({ endpointRate: 0, accountRate: 0 });
  const undo: (() => Promise<void>)[] = [() => stripe.close()];
  try {
    return await work({ shop: shopOf(exhibit, stripe.url, house.nextPeriod()), stripe, undo });
  } finally {
    await within(runAll(undo), UNDO_TIMEOUT_MS);
  }
}

function shopOf({ customers = 1 }: Exhibit, stripeUrl: string, period: string): Shop {
  return {
    stripeUrl,
    apiKey: 'sk_test_acctGallery_1',
    period,
    customers: Array.from({ length: customers }, (_, at) => customerOf(at)),
  };
}

function customerOf(at: number): Customer {
  const id = `c${at + 1}`;
  return {
    id,
    stripeCustomer: `cus_${id}`,
    paymentMethod: 'pm_card_visa',
    amountMinor: AMOUNT_MINOR + at,
    currency: 'usd',
  };
}

/** What it threw, in words; null when it ended well. */
async function within(
  work: Promise<void> | undefined,
  timeoutMs = EXHIBIT_TIMEOUT_MS,
): Promise<string | null> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`not over after ${timeoutMs / 1000} s`)),
    timeoutMs,
  );
  try {
    await Promise.race([work, late.promise]);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    clearTimeout(timer);
  }
}
