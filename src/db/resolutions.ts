import { sql } from 'kysely';
import { assertNever } from '../domain/assert-never.ts';
import type { SlotRef } from '../domain/ids.ts';
import { closeAsAbsent } from './absence.ts';
import { writeAuditEntry } from './audit-log.ts';
import type { Db } from './database.ts';
import { lockSlot } from './generations.ts';
import { recordOutcome } from './record.ts';
import { SEND_WINDOW } from './sends.ts';

/** What a person says about a slot that Stripe could not answer for. */
export type Verdict =
  | { readonly as: 'charged'; readonly chargeId: string; readonly paymentIntentId: string }
  | { readonly as: 'absent' };

export interface Resolution {
  readonly verdict: Verdict;
  /** what the person saw, and where: goes into the audit log as it is */
  readonly evidence: string;
  readonly operator: string;
  /** people who must say the same: 1, or 2 for the two-person rule */
  readonly approvers: number;
}

/**
 * `decided`: the slot says so now. `proposed`: somebody else must say the same. `tooEarly`: the keys are
 * young, Stripe is still asked. `notOpen`: the slot has its answer.
 */
export type ResolutionAnswer =
  | { readonly kind: 'decided'; readonly generation: number }
  | { readonly kind: 'proposed'; readonly by: string }
  | { readonly kind: 'tooEarly' }
  | { readonly kind: 'notOpen'; readonly state: string | null };

/**
 * Writes a person's verdict about a slot whose outcome is unknown, under its row lock and with an audit
 * entry. `charged` names the charge, which the caller has checked at Stripe; `absent` closes the
 * generation, so that a rerun opens the next one. Twice: the slot has its answer, nothing is written.
 */
export async function resolveSlot(
  db: Db,
  slot: SlotRef,
  resolution: Resolution,
): Promise<ResolutionAnswer> {
  return db.transaction().execute(async (trx) => {
    const locked = await lockSlot(trx, slot);
    const state = locked?.state ?? null;
    if (locked === null || (state !== 'in_review' && state !== 'indeterminate')) {
      return { kind: 'notOpen', state };
    }
    const { generation } = locked;
    const open = await readOpenKeys(trx, slot);
    if (open.keys === 0) return { kind: 'notOpen', state: 'resolved_absent' };
    if (state === 'indeterminate' && open.young) return { kind: 'tooEarly' };
    const decides = await isLastWord(trx, { slot, generation, resolution });
    await insertResolution(trx, { slot, generation, resolution, decides });
    await writeAuditEntry(trx, {
      actor: resolution.operator,
      action: decides ? `slot.resolved_${resolution.verdict.as}` : 'slot.resolution_proposed',
      namespace: slot.namespace,
      period: slot.period,
      customerId: slot.customerId,
      reason: resolution.evidence,
      details: { generation, ...resolution.verdict },
    });
    if (!decides) return { kind: 'proposed', by: resolution.operator };
    await carryOut(trx, { slot, locked, resolution });
    return { kind: 'decided', generation };
  });
}

/** The decision about a slot in which a person has said just this; null when there is none. Reads only. */
export async function readDecision(
  db: Db,
  slot: SlotRef,
  said: Pick<Resolution, 'evidence' | 'operator'> & { readonly verdict: Verdict['as'] },
): Promise<{ readonly generation: number } | null> {
  const row = await db
    .selectFrom('slot_resolutions')
    .select('generation')
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .where('decides', '=', true)
    .where('verdict', '=', said.verdict)
    .where('operator', '=', said.operator)
    .where('evidence', '=', said.evidence)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row ?? null;
}

/** Keys that were sent and have no answer, and whether one of them may still be sent again. */
async function readOpenKeys(trx: Db, slot: SlotRef): Promise<{ keys: number; young: boolean }> {
  const { rows } = await sql<{ keys: number; young: boolean }>`
    SELECT count(*)::integer AS keys,
      coalesce(bool_or(first_sent_at > now() - ${SEND_WINDOW}::interval), false) AS young
    FROM charge_generations
    WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
      AND outcome IS NULL`.execute(trx);
  return rows[0] ?? { keys: 0, young: false };
}

interface Saying {
  readonly slot: SlotRef;
  readonly generation: number;
  readonly resolution: Resolution;
}

/** Under the two-person rule, whether somebody else has said the same of this generation. */
async function isLastWord(trx: Db, { slot, generation, resolution }: Saying): Promise<boolean> {
  if (resolution.approvers < 2) return true;
  const { verdict, operator } = resolution;
  const before = await trx
    .selectFrom('slot_resolutions')
    .select('operator')
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .where('generation', '=', generation)
    .where('verdict', '=', verdict.as)
    .where('operator', '<>', operator)
    .where(sql<boolean>`charge_id IS NOT DISTINCT FROM ${chargeOf(verdict)}`)
    .limit(1)
    .executeTakeFirst();
  return before !== undefined;
}

async function insertResolution(trx: Db, said: Saying & { decides: boolean }): Promise<void> {
  const { slot, generation, resolution, decides } = said;
  await trx
    .insertInto('slot_resolutions')
    .values({
      namespace: slot.namespace,
      period: slot.period,
      customer_id: slot.customerId,
      generation,
      verdict: resolution.verdict.as,
      charge_id: chargeOf(resolution.verdict),
      evidence: resolution.evidence,
      operator: resolution.operator,
      decides,
    })
    .execute();
}

function chargeOf(verdict: Verdict): string | null {
  return verdict.as === 'charged' ? verdict.chargeId : null;
}

async function carryOut(
  trx: Db,
  decided: {
    slot: SlotRef;
    locked: { generation: number; amountMinor: number; currency: string };
    resolution: Resolution;
  },
): Promise<void> {
  const { slot, locked, resolution } = decided;
  const { generation, amountMinor, currency } = locked;
  const { verdict, operator } = resolution;
  switch (verdict.as) {
    case 'charged': {
      const { chargeId, paymentIntentId } = verdict;
      const written = await recordOutcome(trx, slot, {
        generation,
        result: { outcome: 'charged', chargeId, paymentIntentId, amountMinor, currency },
        answer: null,
        actor: operator,
      });
      if (written.kind !== 'recorded')
        throw new Error('a locked slot in doubt refused its outcome');
      return;
    }
    case 'absent':
      await closeAsAbsent(trx, slot, generation);
      await trx
        .updateTable('billing_charges')
        .set({ reason: 'resolved_absent', advice: 'rerun', updated_at: sql`now()` })
        .where('namespace', '=', slot.namespace)
        .where('period', '=', slot.period)
        .where('customer_id', '=', slot.customerId)
        .execute();
      return;
    default:
      assertNever(verdict);
  }
}
