import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { raiseCap } from '../../src/db/vault-keys.ts';
import { bindIntent } from '../../src/db/vault-ledger.ts';
import { noteLook, type Sight } from '../../src/db/vault-looks.ts';
import {
  ageReservations,
  assertLedger,
  startLedger,
  type Ledger,
} from '../support/vault-ledger.ts';
import { createOf, LOST, SUCCEEDED } from '../support/vault-orders.ts';

let ledger: Ledger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.close());
afterEach(() => assertLedger(ledger.db));

const by = { operator: 'olga', reason: 'agreed by phone' };

/** What a list at Stripe shows of the creates that are alike: one object, somebody's. */
async function found(keyId: string, objectId: string, marks: Buffer) {
  return bindIntent(ledger.db, {
    keyId,
    objectId,
    amountMinor: 10,
    currency: 'usd',
    stripeCustomer: 'cus_1',
    marks,
    createdAtSeconds: Date.now() / 1_000,
  });
}

const QUIET_MS = 60_000;

async function lookAt(reservationId: number | null, sight: Sight, forwards = 1) {
  if (reservationId === null) throw new Error('no reservation');
  return noteLook(ledger.db, { reservationId, forwards, sight, quietMs: QUIET_MS });
}

/** Two looks that show nothing, a quiet time apart and after the last send. */
async function provenAbsent(keyId: string, reservationId: number | null, forwards = 1) {
  for (let look = 0; look < 2; look += 1) {
    await ageReservations(ledger.db, keyId, '61 seconds');
    await lookAt(reservationId, { to: 'absent', reason: 'not_found' }, forwards);
  }
}

describe('two creates with one sum, customer and metadata', () => {
  it('counts one object once when a look gave it to the other of two creates alike', async () => {
    const keyId = await ledger.key(100);
    const alike = { marks: Buffer.alloc(32, 7) };
    const [first, second] = [createOf(keyId, 'twin-1', alike), createOf(keyId, 'twin-2', alike)];
    const one = await ledger.begin(first);
    const two = await ledger.begin(second);
    const bound = await found(keyId, 'pi_of_second', alike.marks);
    expect(bound).toBe(one.reservationId);
    expect(await ledger.finish(second, { ...SUCCEEDED, objectId: 'pi_of_second' })).toBe('spent');
    expect(await ledger.finish(first, { ...SUCCEEDED, objectId: 'pi_of_first' })).toBe('spent');
    const { rows } = await sql<{ id: number; object_id: string; state: string }>`
      SELECT reservation_id AS id, object_id, state FROM vault_reservations WHERE key_id = ${keyId} ORDER BY 1`.execute(
      ledger.db,
    );
    expect(rows).toEqual([
      { id: one.reservationId, object_id: 'pi_of_second', state: 'spent' },
      { id: two.reservationId, object_id: 'pi_of_first', state: 'spent' },
    ]);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 20 });
  });

  it('takes room anew for a create sent again whose reservation a look spent for a create alike', async () => {
    const keyId = await ledger.key(20);
    const alike = { marks: Buffer.alloc(32, 8) };
    // Killed with both under way: the first never left, the second took money and its reply was lost.
    const one = await ledger.begin(createOf(keyId, 'never-left', alike));
    const took = createOf(keyId, 'took', alike);
    const two = await ledger.begin(took);
    await ledger.finish(took, LOST);
    await found(keyId, 'pi_took', alike.marks);
    expect(await lookAt(one.reservationId, { to: 'spent', reason: 'succeeded' })).toBe('spent');
    await provenAbsent(keyId, two.reservationId);
    await ledger.begin(createOf(keyId, 'other'));
    const again = createOf(keyId, 'never-left', alike);
    expect((await ledger.begin(again)).decision).toBe('spend_cap_exceeded');
    await raiseCap(ledger.db, { keyId, currency: 'usd', capMinor: 30, ...by });
    const room = createOf(keyId, 'never-left', alike);
    expect(await ledger.begin(room)).toMatchObject({ decision: 'forward', usedMinor: 30 });
    expect(await ledger.finish(room, { ...SUCCEEDED, objectId: 'pi_late' })).toBe('spent');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 10, spentMinor: 20 });
  });

  it('gives that room back when the resend only brings what the look had found', async () => {
    const keyId = await ledger.key(20);
    const alike = { marks: Buffer.alloc(32, 9) };
    const took = createOf(keyId, 'its-own', alike);
    const one = await ledger.begin(took);
    const two = await ledger.begin(createOf(keyId, 'left-nothing', alike));
    await ledger.finish(took, LOST);
    await found(keyId, 'pi_own', alike.marks);
    await lookAt(one.reservationId, { to: 'spent', reason: 'succeeded' });
    await provenAbsent(keyId, two.reservationId);
    const again = createOf(keyId, 'its-own', alike);
    expect((await ledger.begin(again)).decision).toBe('forward');
    expect(await ledger.finish(again, { ...SUCCEEDED, objectId: 'pi_own' })).toBe('spent');
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 10, spentMinor: 10 });
    await provenAbsent(keyId, two.reservationId, 2);
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 10 });
    // Its answer has come: the next resend takes nothing.
    await ledger.begin(createOf(keyId, 'its-own', alike));
    expect(await ledger.budget(keyId)).toMatchObject({ reservedMinor: 0, spentMinor: 10 });
  });
});
