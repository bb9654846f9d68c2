import { createHash, randomUUID } from 'node:crypto';
import type {
  ClaimAnswer,
  IdempotencyStore,
  RecordId,
  StoredResponse,
} from '../../src/http/idempotency/index.ts';
import { seededRandom } from '../../src/simulator/faults.ts';
import { FREE, statesAfter, type KeyState, type Said, type Step } from './idempotent-model.ts';

/** A call of the store, and the times between which it took effect, if it did. */
export interface Call {
  readonly client: number;
  readonly step: Step;
  readonly begunAt: number;
  /** infinite where the answer was lost: it may take effect at any time, or never */
  endedAt: number;
  said: Said | null;
}

const NEVER_OVER_MS = 3_600_000;
const CLIENTS = 4;
const CALLS_EACH = 7;
/** An answer that is lost, after the store has done what it was asked, or before. */
const LOST = 0.08;

interface Own {
  readonly holder: string;
  readonly request: number;
  fence: number | null;
}

/** Lets some clients do at random what clients may do to one key, and writes down what came of it. */
export async function recordHistory(
  store: IdempotencyStore,
  seed: string,
): Promise<readonly Call[]> {
  const id: RecordId = { principal: 'history', endpoint: '*', key: `${seed} ${randomUUID()}` };
  const calls: Call[] = [];
  let clock = 0;
  const client = async (number: number): Promise<void> => {
    const random = seededRandom(`${seed} ${number}`);
    const own: Own[] = [];
    for (let n = 0; n < CALLS_EACH; n += 1) {
      const step = chooseStep(random, own, `${number}.${n}`);
      const call: Call = { client: number, step, begunAt: clock++, endedAt: Infinity, said: null };
      calls.push(call);
      const luck = random();
      if (luck < LOST / 2) continue;
      const said = await carryOut(store, id, step);
      if (luck < LOST) continue;
      call.said = said;
      call.endedAt = clock++;
      const mine = step.kind === 'claim' ? own.find(({ holder }) => holder === step.holder) : null;
      if (mine != null) mine.fence = said.fence;
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  return calls;
}

function chooseStep(random: () => number, own: Own[], name: string): Step {
  const is = (probability: number): boolean => random() < probability;
  const latest = own.at(-1);
  // Its answer was lost: it asks again.
  if (latest?.fence === null && is(0.5)) return claimAs(latest, is);
  const mine = own.filter(({ fence }) => fence !== null);
  const one = is(0.7) ? mine.at(-1) : mine[Math.floor(random() * mine.length)];
  const kind = random();
  if (kind < 0.08) return { kind: 'look', request: is(0.8) ? 1 : 2 };
  if (kind < 0.16) return { kind: 'resolve', body: is(0.5) ? null : `r${name}`, over: is(0.3) };
  if (one?.fence != null && kind < 0.7) {
    const { holder, fence } = one;
    if (kind < 0.26) return { kind: 'abandon', holder };
    if (kind < 0.4) return { kind: 'renew', holder, fence, over: is(0.5) };
    if (kind < 0.47) return claimAs(one, is);
    return { kind: 'complete', holder, fence, body: `b${name}`, over: is(0.4) };
  }
  const next: Own = { holder: randomUUID(), request: is(0.85) ? 1 : 2, fence: null };
  own.push(next);
  return claimAs(next, is);
}

function claimAs({ holder, request }: Own, is: (probability: number) => boolean): Step {
  return {
    kind: 'claim',
    holder,
    request,
    takeover: is(0.6) ? 'rerun' : 'conflict',
    over: is(0.5),
  };
}

const fingerprintOf = (request: number): Buffer =>
  createHash('sha256').update(`request ${request}`).digest();
const responseOf = (body: string): StoredResponse => ({
  state: 'COMPLETED',
  status: 200,
  headers: [],
  body: Buffer.from(body),
});
const timeOf = ({ over }: { readonly over: boolean }): number => (over ? 0 : NEVER_OVER_MS);

async function carryOut(store: IdempotencyStore, id: RecordId, step: Step): Promise<Said> {
  switch (step.kind) {
    case 'claim': {
      const { holder, takeover, request } = step;
      const fingerprint = fingerprintOf(request);
      return saidBy(
        await store.claim({ ...id, fingerprint, holder, takeover, leaseMs: timeOf(step) }),
      );
    }
    case 'look':
      return saidBy(await store.look(id, fingerprintOf(step.request)));
    case 'renew': {
      const lost = await store.renew([{ ...id, ...step }], timeOf(step));
      return plain(lost.length === 0 ? 'renewed' : 'lost');
    }
    case 'complete':
      return plain(await store.complete({ ...id, ...step }, responseOf(step.body), timeOf(step)));
    case 'abandon':
      await store.abandon({ ...id, holder: step.holder });
      return plain('');
    case 'resolve': {
      const response = step.body === null ? null : responseOf(step.body);
      return plain(await store.resolve(id, response, timeOf(step)));
    }
  }
}

const plain = (text: string): Said => ({ text, fence: null });

function saidBy(answer: ClaimAnswer | null): Said {
  if (answer === null) return plain('nothing');
  if (answer.kind === 'claimed')
    return { text: answer.takenOver ? 'takenOver' : 'claimed', fence: answer.fence };
  if (answer.kind !== 'stored') return plain(answer.kind);
  return plain(`stored ${answer.response.body?.toString() ?? 'nothing'}`);
}

/**
 * Whether the calls could have happened one after another, each between its beginning and its end, and answered what
 * they answered (Wing and Gong's search, with the states it has been in before left out).
 */
export function isLinearizable(calls: readonly Call[]): boolean {
  const met = calls.map((call) =>
    calls.some(
      (other) => other !== call && other.begunAt < call.endedAt && call.begunAt < other.endedAt,
    ),
  );
  const answered = calls.reduce((all, call, n) => (call.said === null ? all : all | bit(n)), 0n);
  const dead = new Set<string>();
  const search = (done: bigint, state: KeyState): boolean => {
    if ((done & answered) === answered) return true;
    const here = `${done} ${JSON.stringify(state)}`;
    if (dead.has(here)) return false;
    const open = calls.map((call, n) => ({ call, n })).filter(({ n }) => (done & bit(n)) === 0n);
    // Whatever comes next must have begun before any of the rest had ended.
    const firstEnd = Math.min(...open.map(({ call }) => call.endedAt));
    for (const { call, n } of open) {
      if (call.begunAt > firstEnd) continue;
      for (const next of statesAfter(state, call.step, { ...call, met: met[n] === true }))
        if (search(done | bit(n), next)) return true;
    }
    dead.add(here);
    return false;
  };
  return search(0n, FREE);
}

const bit = (n: number): bigint => 1n << BigInt(n);

/** For a person who wants to know why not. */
export function describeHistory(calls: readonly Call[]): string {
  return calls
    .map(
      ({ client, step, begunAt, endedAt, said }) =>
        `${begunAt}-${endedAt} client ${client} ${JSON.stringify(step)} → ${said === null ? 'lost' : `${said.text} ${said.fence ?? ''}`}`,
    )
    .join('\n');
}
