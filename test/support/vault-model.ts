import { sql } from 'kysely';
import { noteLook, type Sight } from '../../src/db/vault-looks.ts';
import { raiseCap, revokeVaultKey } from '../../src/db/vault-keys.ts';
import type { FinishOrder } from '../../src/db/vault-ledger.ts';
import { type Ledger } from './vault-ledger.ts';
import { confirmOf, createOf, DECLINED, LOST, SUCCEEDED } from './vault-orders.ts';

/** What may come back for a send; `refused`: this send had no effect, whatever became of others of its key. */
const ANSWERS = {
  made: { resolves: 'key', to: 'held', reason: 'requires_confirmation' },
  succeeded: SUCCEEDED,
  declined: DECLINED,
  refused: { status: 400, resolves: 'send', to: 'released', reason: 'invalid_request_error' },
  canceled: { resolves: 'key', to: 'released', reason: 'canceled' },
  lost: LOST,
} as const satisfies Record<string, Partial<FinishOrder>>;

type AnswerKind = keyof typeof ANSWERS;
export const ANSWER_KINDS = [
  'made',
  'succeeded',
  'declined',
  'refused',
  'canceled',
  'lost',
] as const;

/** One step of a random history of one key. `sum` numbers the things that are paid for. */
export type Step =
  | { readonly kind: 'create'; readonly sum: number }
  | { readonly kind: 'confirm'; readonly sum: number; readonly generation: number }
  /** answers one of the requests that were let out, an answered one again too */
  | { readonly kind: 'answer'; readonly pick: number; readonly answer: AnswerKind }
  | {
      readonly kind: 'look';
      readonly sum: number;
      readonly to: Sight['to'];
      readonly stale: boolean;
    }
  | { readonly kind: 'raise'; readonly byMinor: number }
  | { readonly kind: 'revoke' };

interface Reserved {
  readonly state: 'held' | 'spent' | 'released';
  readonly named: boolean;
  readonly forwards: number;
  readonly absent: boolean;
  /** open sends by idempotency key */
  readonly open: Readonly<Record<string, number>>;
}

export interface Model {
  readonly capMinor: number;
  readonly usedMinor: number;
  readonly revoked: boolean;
  readonly reserved: Readonly<Record<number, Reserved>>;
  /** requests that were let out, in the order of their names */
  readonly requests: Readonly<
    Record<
      string,
      {
        readonly sum: number;
        readonly key: string;
        readonly create: boolean;
        readonly effect: string | null;
      }
    >
  >;
}

const amountOf = (sum: number): number => 10 + sum;

export function newModel(capMinor: number): Model {
  return { capMinor, usedMinor: 0, revoked: false, reserved: {}, requests: {} };
}

/** A step with everything decided that its run and its model need alike: names, and what it read before it began. */
export type Bound = Step & {
  readonly name: string;
  readonly request: string | null;
  readonly forwards: number;
};

/** Decides what a step refers to in this state; null when there is nothing for it. */
export function bindStep(model: Model, step: Step, name: string): Bound | null {
  if (step.kind === 'answer') {
    const names = Object.keys(model.requests);
    const request = names[step.pick % names.length];
    return request === undefined ? null : { ...step, name, request, forwards: 0 };
  }
  if (step.kind === 'look') {
    const reserved = model.reserved[step.sum];
    if (reserved === undefined) return null;
    return { ...step, name, request: null, forwards: reserved.forwards - (step.stale ? 1 : 0) };
  }
  return { ...step, name, request: null, forwards: 0 };
}

export interface Outcome {
  readonly model: Model;
  readonly said: string;
}

/** What a step does, by the words of docs: pure, without a database. */
export function play(model: Model, step: Bound): Outcome {
  switch (step.kind) {
    case 'create':
      return begin(model, step.name, { sum: step.sum, key: `create-${step.sum}`, create: true });
    case 'confirm': {
      const key = `confirm-${step.sum}-${step.generation}`;
      if (model.revoked) return { model, said: 'vault_key_revoked' };
      if (model.reserved[step.sum]?.named !== true)
        return { model, said: 'unknown_payment_intent' };
      return begin(model, step.name, { sum: step.sum, key, create: false });
    }
    case 'answer':
      return answer(model, step.request ?? '', step.answer);
    case 'look':
      return look(model, step);
    case 'raise':
      return { model: { ...model, capMinor: model.capMinor + step.byMinor }, said: 'raised' };
    case 'revoke':
      return { model: { ...model, revoked: true }, said: 'revoked' };
  }
}

function begin(
  model: Model,
  name: string,
  of: { sum: number; key: string; create: boolean },
): Outcome {
  if (model.revoked) return { model, said: 'vault_key_revoked' };
  const before = model.reserved[of.sum];
  const wanted = before === undefined || before.state === 'released';
  const usedMinor = model.usedMinor + (wanted ? amountOf(of.sum) : 0);
  if (wanted && usedMinor > model.capMinor) return { model, said: 'spend_cap_exceeded' };
  const open = { ...before?.open, [of.key]: (before?.open[of.key] ?? 0) + 1 };
  // Nothing counts forwards of what is spent.
  const forwards = (before?.forwards ?? 0) + (before?.state === 'spent' ? 0 : 1);
  const reserved: Reserved = {
    state: wanted ? 'held' : before.state,
    named: before?.named ?? false,
    forwards,
    absent: before?.state === 'spent' ? before.absent : false,
    open,
  };
  const requests = { ...model.requests, [name]: { ...of, effect: null } };
  return {
    model: withReserved({ ...model, usedMinor, requests }, of.sum, reserved),
    said: 'forward',
  };
}

function answer(model: Model, name: string, kind: AnswerKind): Outcome {
  const request = model.requests[name];
  const before = request === undefined ? undefined : model.reserved[request.sum];
  if (request === undefined || before === undefined) throw new Error('an answer to nothing');
  if (request.effect !== null) return { model, said: request.effect };
  const { resolves, to } = ANSWERS[kind];
  const openNow = before.open[request.key] ?? 0;
  const left = resolves === 'key' ? 0 : Math.max(0, openNow - (resolves === 'send' ? 1 : 0));
  const open = { ...before.open, [request.key]: left };
  const quiet = Object.values(open).every((n) => n === 0);
  const named = before.named || (request.create && names(kind));
  const after = move({ ...before, open, named }, to === 'released' && !quiet ? 'held' : to);
  const requests = { ...model.requests, [name]: { ...request, effect: after.state } };
  return settle({ ...model, requests }, request.sum, after);
}

function look(model: Model, step: Bound & { readonly kind: 'look' }): Outcome {
  const before = model.reserved[step.sum];
  if (before === undefined) throw new Error('a look at nothing');
  const current = step.forwards === before.forwards;
  const absent = step.to === 'absent' && current;
  const released = current && (step.to === 'released' || (absent && before.absent));
  const to = step.to === 'spent' ? 'spent' : released ? 'released' : 'held';
  const moved = move(before, to);
  const open = released && moved.state === 'released' ? {} : moved.open;
  return settle(model, step.sum, { ...moved, absent, open });
}

/** Spent is for ever, success is the truth, and where nothing is set aside there is nothing to hold or give back. */
function move(before: Reserved, to: Reserved['state']): Reserved {
  if (before.state === 'spent' || (before.state === 'released' && to !== 'spent')) return before;
  return { ...before, state: to };
}

function settle(model: Model, sum: number, after: Reserved): Outcome {
  const counts = (state: Reserved['state'] | undefined) =>
    state === 'held' || state === 'spent' ? amountOf(sum) : 0;
  const usedMinor = model.usedMinor + counts(after.state) - counts(model.reserved[sum]?.state);
  return { model: withReserved({ ...model, usedMinor }, sum, after), said: after.state };
}

function withReserved(model: Model, sum: number, reserved: Reserved): Model {
  return { ...model, reserved: { ...model.reserved, [sum]: reserved } };
}

const names = (kind: AnswerKind): boolean => kind !== 'lost' && kind !== 'refused';

/** The database's side of a history. */
export interface Played {
  readonly ledger: Ledger;
  readonly keyId: string;
  /** by the name of the step that sent it */
  readonly requestIds: Map<string, string>;
}

/** Does the step in the database; says what the database said. */
export async function perform({ ledger, keyId, requestIds }: Played, step: Bound): Promise<string> {
  const by = { keyId, operator: 'olga', reason: 'random' };
  switch (step.kind) {
    case 'create':
    case 'confirm': {
      const order =
        step.kind === 'create'
          ? createOf(keyId, `create-${step.sum}`, { amountMinor: amountOf(step.sum) })
          : confirmOf(keyId, objectOf(step.sum), `confirm-${step.sum}-${step.generation}`);
      requestIds.set(step.name, order.requestId);
      return (await ledger.begin(order)).decision;
    }
    case 'answer': {
      const name = step.request ?? '';
      const requestId = requestIds.get(name) ?? '';
      const objectId = names(step.answer) ? objectOf(sumOf(name)) : null;
      return ledger.finish(createOf(keyId, '', { requestId }), {
        ...ANSWERS[step.answer],
        objectId,
      });
    }
    case 'look': {
      const reservationId = (await readReserved(ledger, keyId)).get(step.sum)?.id ?? 0;
      const sight = { to: step.to, reason: step.to };
      return noteLook(ledger.db, { reservationId, forwards: step.forwards, sight, quietMs: 0 });
    }
    case 'raise':
      return raiseBy(ledger, by, step.byMinor);
    case 'revoke':
      await revokeVaultKey(ledger.db, by);
      return 'revoked';
  }
}

async function raiseBy(
  ledger: Ledger,
  by: { keyId: string; operator: string; reason: string },
  byMinor: number,
): Promise<string> {
  const { rows } = await sql<{
    cap: number;
  }>`SELECT cap_minor AS cap FROM vault_caps WHERE key_id = ${by.keyId}`.execute(ledger.db);
  return raiseCap(ledger.db, { ...by, currency: 'usd', capMinor: (rows[0]?.cap ?? 0) + byMinor });
}

const objectOf = (sum: number): string => `pi_${sum}`;
/** A step's name begins with what it is about. */
const sumOf = (name: string): number => Number(name.split('.')[0]);

interface Row {
  readonly id: number;
  readonly create_key: string;
  readonly state: string;
  readonly named: boolean;
  readonly forwards: number;
  readonly open: number;
}

async function readReserved(ledger: Ledger, keyId: string): Promise<Map<number, Row>> {
  const { rows } = await sql<Row>`
    SELECT r.reservation_id AS id, r.create_key, r.state, r.object_id IS NOT NULL AS named, r.forwards,
      (SELECT coalesce(sum(s.unresolved), 0) FROM vault_sends s WHERE s.reservation_id = r.reservation_id) AS open
    FROM vault_reservations r WHERE r.key_id = ${keyId}`.execute(ledger.db);
  return new Map(rows.map((row) => [Number(row.create_key.slice('create-'.length)), row]));
}

/** The database as the model sees it. */
export async function stateOf(ledger: Ledger, keyId: string): Promise<unknown> {
  const { rows } = await sql<{ cap: number; used: number; beyond: number }>`
    SELECT c.cap_minor AS cap, coalesce(w.used_minor, 0)::bigint AS used FROM vault_caps c LEFT JOIN vault_windows w USING (key_id, currency)
    WHERE c.key_id = ${keyId}`.execute(ledger.db);
  const reserved = [...(await readReserved(ledger, keyId))].toSorted(([a], [b]) => a - b);
  return {
    capMinor: rows[0]?.cap,
    usedMinor: rows[0]?.used,
    reserved: reserved.map(([sum, { state, named, forwards, open }]) => ({
      sum,
      state,
      named,
      forwards,
      open,
    })),
  };
}

/** What `stateOf` has to give. */
export function expectedState(model: Model): unknown {
  const reserved = Object.entries(model.reserved).map(
    ([sum, { state, named, forwards, open }]) => ({
      sum: Number(sum),
      state,
      named,
      forwards,
      open: Object.values(open).reduce((total, n) => total + n, 0),
    }),
  );
  return { capMinor: model.capMinor, usedMinor: model.usedMinor, reserved };
}
