import type { Db } from '../db/database.ts';
import { bindIntent, type Effect } from '../db/vault-ledger.ts';
import {
  closeKeysOfEndedRuns,
  isAccountedFor,
  noteLook,
  takeOpenReservations,
  type OpenReservation,
  type Sight,
} from '../db/vault-looks.ts';
import type { OnVaultEvent } from './events.ts';
import { faultText } from './finisher.ts';
import {
  customerOf,
  marksOfSeen,
  readSeen,
  readSeenPage,
  sightOf,
  standsAlone,
  type Seen,
} from './sweep-look.ts';
import type { Upstream } from './upstream.ts';

export interface SweepDeps {
  readonly db: Db;
  readonly upstream: Pick<Upstream, 'get'>;
  /** what the vault's own key bills: the reservations of others cannot be seen with it */
  readonly account: string;
  readonly liveMode: boolean;
  /** ABSENCE_QUIET: how long nothing has to be seen before nothing is believed to have happened */
  readonly quietMs: number;
  readonly onEvent: OnVaultEvent;
}

/** What one pass did; counts of reservations, but for the keys. */
export interface SweepReport {
  readonly looked: number;
  readonly spent: number;
  readonly released: number;
  readonly held: number;
  /** of the held ones: Stripe or the database gave no answer, so nothing was learned */
  readonly failed: number;
  /** keys of runs that are over, closed now */
  readonly closedKeys: readonly string[];
}

const BATCH = 50;
/** A pass ends after this many; the next one goes on. */
const MAX_LOOKS = 2_000;
/** Reads at once: a quarter of what Stripe takes per second, with 150 ms each. */
const AT_ONCE = 4;
/** A list is newest first and begins at the reservation, so its pages are few. */
const MAX_PAGES = 20;
/** Clocks of ours and Stripe's may differ by this much. */
const CLOCK_MARGIN_SECONDS = 5 * 60;
/** Nothing leaves the vault later than this after it was let out; bounds lists of a whole account. */
const SEND_MARGIN_SECONDS = 60 * 60;

/**
 * Asks Stripe about reservations whose end is open, reads only, and settles or releases what that proves; also closes the
 * keys of runs that are over. `force` asks about every held one, due or not. Twice, or in two processes at once: each
 * sum is settled once.
 */
export async function sweepReservations(
  deps: SweepDeps,
  { force = false }: { readonly force?: boolean } = {},
): Promise<SweepReport> {
  const closedKeys = await closeKeysOfEndedRuns(deps.db, 'sweep');
  const counts = { looked: 0, spent: 0, released: 0, held: 0, failed: 0 };
  let after = 0;
  while (counts.looked < MAX_LOOKS) {
    const open = await takeOpenReservations(deps.db, {
      account: deps.account,
      liveMode: deps.liveMode,
      limit: BATCH,
      everyAfter: force ? after : null,
    });
    const queue = [...open];
    const work = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const result = await lookAt(deps, next);
        counts.looked += 1;
        if (result === 'failed') counts.failed += 1;
        if (result === 'spent' || result === 'released') counts[result] += 1;
        else counts.held += 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    after = open.at(-1)?.reservationId ?? after;
    if (open.length < BATCH) break;
  }
  return { ...counts, closedKeys };
}

/** One that fails is left held, and does not keep the others from being looked at. */
async function lookAt(deps: SweepDeps, reservation: OpenReservation): Promise<Effect | 'failed'> {
  const { db, quietMs } = deps;
  const { reservationId, forwards } = reservation;
  try {
    const looked = await see(deps, reservation);
    // A look-up that failed says nothing, least of all that nothing is there.
    const sight: Sight = looked ?? { to: 'held', reason: 'look_failed' };
    const effect = await noteLook(db, { reservationId, forwards, sight, quietMs });
    return looked === null ? 'failed' : effect;
  } catch (error) {
    deps.onEvent({ kind: 'fault', where: 'sweep', message: faultText(error) });
    return 'failed';
  }
}

/** What Stripe shows of a reservation; null when it did not say. */
async function see(deps: SweepDeps, reservation: OpenReservation): Promise<Sight | null> {
  const { objectId } = reservation;
  if (objectId === null) return find(deps, reservation);
  const read = await deps.upstream.get(`${listPath(objectId.startsWith('ch_'))}/${objectId}`);
  if (read.kind === 'lost' || read.status !== 200) return null;
  const seen = readSeen(read.body);
  return seen?.id === objectId ? sightOf(reservation, seen) : null;
}

/** Looks for the object that no reply has named, by what its create said. */
async function find(deps: SweepDeps, reservation: OpenReservation): Promise<Sight | null> {
  const listed = await list(deps, reservation);
  if (listed === null) return null;
  let stranger: Sight | null = null;
  // Oldest first, so that two creates alike get theirs in the order of their sends.
  for (const seen of listed.toReversed()) {
    const { amountMinor, currency, stripeCustomer } = reservation;
    const alike =
      standsAlone(seen) &&
      seen.amount === amountMinor &&
      seen.currency === currency &&
      customerOf(seen) === stripeCustomer;
    if (!alike) continue;
    const owner = await bindIntent(deps.db, {
      keyId: reservation.keyId,
      objectId: seen.id,
      amountMinor,
      currency,
      stripeCustomer,
      marks: marksOfSeen(seen),
      createdAtSeconds: seen.created,
    });
    if (owner === reservation.reservationId) return sightOf(reservation, seen);
    if (owner !== null || (await isAccountedFor(deps.db, seen.id))) continue;
    // Somebody may have changed the metadata of ours since: as long as it has money, or may get some, nothing is proven.
    const { to } = sightOf(reservation, seen);
    if (to === 'spent' || to === 'held')
      stranger = { to: 'held', reason: 'found_with_other_marks' };
  }
  return stranger ?? { to: 'absent', reason: 'not_found' };
}

/** Every object that the create can have made, newest first; null when a page failed or they are too many to see. */
async function list(deps: SweepDeps, reservation: OpenReservation): Promise<Seen[] | null> {
  const path = listPath(reservation.createPath === '/v1/charges');
  const query = new URLSearchParams({
    limit: '100',
    'created[gte]': String(reservation.reservedAtSeconds - CLOCK_MARGIN_SECONDS),
    'created[lte]': String(reservation.lastForwardAtSeconds + SEND_MARGIN_SECONDS),
  });
  if (reservation.stripeCustomer !== null) query.set('customer', reservation.stripeCustomer);
  const seen: Seen[] = [];
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const read = await deps.upstream.get(`${path}?${query.toString()}`);
    if (read.kind === 'lost' || read.status !== 200) return null;
    const parsed = readSeenPage(read.body);
    if (parsed === null) return null;
    seen.push(...parsed.data);
    const last = seen.at(-1);
    if (!parsed.has_more || last === undefined) return seen;
    query.set('starting_after', last.id);
  }
  return null;
}

function listPath(charges: boolean): string {
  return charges ? '/v1/charges' : '/v1/payment_intents';
}
