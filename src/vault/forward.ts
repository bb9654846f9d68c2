import { randomUUID } from 'node:crypto';
import type { Db } from '../db/database.ts';
import {
  beginForward,
  NOT_SENT,
  noteRefused,
  type BeginOrder,
  type Begun,
} from '../db/vault-ledger.ts';
import { adoptIntent } from './adopt-intent.ts';
import { answerOf, finishOf, judged, type Answer } from './answer.ts';
import { matchEndpoint } from './endpoints.ts';
import { crossedLines, type CapUse, type OnVaultEvent, type RequestFacts } from './events.ts';
import { faultText, Finisher } from './finisher.ts';
import type { FormFacts } from './form-body.ts';
import { readHead } from './headers.ts';
import { judgeReply } from './judge-reply.ts';
import { KnownKeys, type Authentication, type FindKey } from './known-keys.ts';
import { sha256Framed } from './marks.ts';
import { ledgerRefusalOf, refusalOf, type Refusal, type RefusalCode } from './refusal.ts';
import { capUseOf, factsOf, NO_FACTS, readBody, type Admitted } from './request-facts.ts';
import { readTarget } from './target.ts';
import type { Upstream } from './upstream.ts';

export interface ForwarderOptions {
  readonly db: Db;
  readonly findKey: FindKey;
  /** the account and mode that the vault's own Stripe key bills */
  readonly account: string;
  readonly liveMode: boolean;
  readonly upstream: Upstream;
  /** the Stripe key, to take it out of answers that quote it */
  readonly secret: { reveal(): string };
  readonly onEvent: OnVaultEvent;
  /** milliseconds of a clock that never goes back; tests bring their own */
  readonly now?: () => number;
}

/** From the start of a reservation until its bytes leave: far above any statement, far below the quiet time of the sweep. */
const LATEST_SEND_MS = 6_000;

export type Admission =
  | { readonly kind: 'admitted'; readonly request: Admitted }
  | { readonly kind: 'refused'; readonly answer: Answer };

/** The life of one request, from its head to Stripe's answer. One per process; keeps no count of its own. */
export class Forwarder {
  readonly #options: ForwarderOptions;
  readonly #keys: KnownKeys;
  readonly #finisher: Finisher;
  readonly #now: () => number;

  constructor(options: ForwarderOptions) {
    this.#options = options;
    this.#keys = new KnownKeys(options.findKey);
    this.#finisher = new Finisher(options.db, options.onEvent);
    this.#now = options.now ?? (() => performance.now());
  }

  /** Target, headers, key and policy, in this order, before a byte of the body is read. */
  async admit(
    method: string,
    rawTarget: string,
    rawHeaders: readonly string[],
  ): Promise<Admission> {
    const facts = { ...NO_FACTS, method };
    const target = readTarget(rawTarget, method);
    if (!target.ok) return this.#turnAway(facts, target.code);
    const { path, query } = target;
    const read = readHead(rawHeaders);
    if (!read.ok) return this.#turnAway({ ...facts, path }, read.code);
    const { head } = read;
    const { idempotencyKey, attemptId } = head;
    const known = { ...facts, path, idempotencyKey, attemptId };
    const who = await this.#authenticate(head.credential);
    if (who === null) return this.#turnAway(known, 'vault_unavailable');
    if (!who.ok) return this.#turnAway({ ...known, keyId: who.keyId }, who.code);
    const { keyId, policy, liveMode } = who.key;
    const own = { ...known, keyId };
    const endpoint = matchEndpoint(policy, method, path);
    if (liveMode !== this.#options.liveMode) return this.#deny(own, 'vault_key_of_another_account');
    if (endpoint === null) return this.#deny(own, 'endpoint_not_allowed');
    if (endpoint.method === 'POST' && idempotencyKey === null) {
      return this.#deny(own, 'idempotency_key_missing');
    }
    const request: Admitted = { method: endpoint.method, path, query, head, keyId, endpoint };
    return { kind: 'admitted', request };
  }

  /** Reserves, writes the audit row, forwards once and settles. Goes on to the end when the client has left. */
  async send(request: Admitted, body: Buffer): Promise<Answer> {
    const startedAt = this.#now();
    const form = readBody(request, body);
    if (typeof form === 'string') {
      return (await this.#deny(factsOf(request, null), form)).answer;
    }
    const order = this.#orderOf(request, body, form);
    const begun = await this.#begin(order);
    if (begun === null) return this.#unavailable({ ...factsOf(request, form), requestId: null });
    const { requestId, decided } = begun;
    const facts: RequestFacts = {
      ...factsOf(request, form),
      requestId,
      amountMinor: decided.amountMinor,
      currency: decided.currency,
    };
    const cap = capUseOf(request.keyId, decided);
    if (decided.decision !== 'forward') {
      const refusal = ledgerRefusalOf(decided.decision, decided, request.keyId);
      return this.#refuse(facts, refusal, cap);
    }
    const spendKind = request.endpoint.kind;
    if (this.#now() - startedAt > LATEST_SEND_MS) return this.#tooLate(requestId, facts);
    this.#options.onEvent({ kind: 'forwarded', spendKind, request: facts });
    if (cap !== null) {
      for (const line of crossedLines(cap))
        this.#options.onEvent({ kind: 'cap_crossed', line, cap });
    }
    return this.#exchange({ request, body, facts, requestId, stripeCustomer: form.stripeCustomer });
  }

  /**
   * The process was frozen between the reservation and now: the sweep may have given the sum back meanwhile. Sent
   * nothing, and says so.
   */
  async #tooLate(requestId: string, facts: RequestFacts): Promise<Answer> {
    await this.#finisher.finish({
      requestId,
      status: null,
      error: NOT_SENT,
      stripeRequestId: null,
      replayed: false,
      durationMs: 0,
      resolves: 'send',
      to: 'held',
      reason: NOT_SENT,
      objectId: null,
    });
    return this.#unavailable(facts);
  }

  /** A body that the server did not read to its end: too large, or the client stopped. */
  async refuseBody(request: Admitted, code: 'body_too_large' | 'request_timeout'): Promise<Answer> {
    return (await this.#deny(factsOf(request, null), code)).answer;
  }

  /** Waits for answers that are still being written; the caller bounds the wait. */
  async drain(): Promise<void> {
    await this.#finisher.drain();
  }

  async #exchange(sending: Sending): Promise<Answer> {
    const { request, body, facts } = sending;
    const startedAt = performance.now();
    const reply = await this.#options.upstream.send({
      method: request.method,
      path: request.path + request.query,
      headers: request.head.forward,
      body,
      keyId: request.keyId,
    });
    const durationMs = Math.round(performance.now() - startedAt);
    const judgement = judgeReply(
      {
        kind: request.endpoint.kind,
        object: request.endpoint.object,
        objectId: request.endpoint.objectId,
        amountMinor: facts.amountMinor,
        currency: facts.currency,
        stripeCustomer: sending.stripeCustomer,
      },
      judged(reply),
    );
    if (judgement.mismatch !== null) {
      const { mismatch } = judgement;
      this.#options.onEvent({ kind: 'reply_mismatch', mismatch, request: facts });
    }
    const finish = finishOf(sending.requestId, reply, { judgement, durationMs });
    const effect = await this.#finisher.finish(finish);
    this.#options.onEvent({
      kind: 'answered',
      spendKind: request.endpoint.kind,
      request: facts,
      status: finish.status,
      error: finish.error,
      stripeRequestId: finish.stripeRequestId,
      replayed: finish.replayed,
      durationMs,
      effect,
    });
    return answerOf(reply, this.#options.secret.reveal());
  }

  /** Null when the database, or a look at Stripe that the decision needs, gave no answer: then nothing leaves. */
  async #begin(order: BeginOrder): Promise<{ requestId: string; decided: Begun } | null> {
    const { db, upstream } = this.#options;
    try {
      const decided = await beginForward(db, order);
      const { requestId } = order;
      if (decided.decision !== 'unknown_payment_intent' || order.objectId === null) {
        return { requestId, decided };
      }
      // Its create's reply was lost, so nobody has told us its name yet.
      const { keyId, objectId } = order;
      const adoption = await adoptIntent(db, upstream, { keyId, objectId });
      if (adoption === 'unseen') return null;
      if (adoption === 'foreign') return { requestId, decided };
      const again = { ...order, requestId: randomUUID() };
      return { requestId: again.requestId, decided: await beginForward(db, again) };
    } catch (error) {
      this.#fault('begin', error);
      return null;
    }
  }

  async #authenticate(credential: string | null): Promise<Authentication | null> {
    try {
      return await this.#keys.authenticate(credential);
    } catch (error) {
      this.#fault('authenticate', error);
      return null;
    }
  }

  #orderOf(request: Admitted, body: Buffer, form: FormFacts): BeginOrder {
    const { account, liveMode } = this.#options;
    const { method, path, keyId, endpoint, head } = request;
    return {
      ...form,
      requestId: randomUUID(),
      keyId,
      account,
      liveMode,
      kind: endpoint.kind,
      method,
      path,
      idempotencyKey: head.idempotencyKey,
      attemptId: head.attemptId,
      requestHash: sha256Framed([method, path, body]),
      objectId: endpoint.objectId,
    };
  }

  /** Refused before anybody is known, so there is no audit row. */
  #turnAway(facts: RequestFacts, code: RefusalCode): Admission {
    return { kind: 'refused', answer: this.#refuse(facts, refusalOf(code), null) };
  }

  /** Refused to a known key: with its audit row, as far as the database takes it. */
  async #deny(
    facts: RequestFacts,
    code: RefusalCode,
  ): Promise<Extract<Admission, { kind: 'refused' }>> {
    const requestId = randomUUID();
    const { keyId, idempotencyKey, attemptId, method, path } = facts;
    let noted: RequestFacts = facts;
    if (keyId !== null && path !== null) {
      try {
        const row = { requestId, keyId, idempotencyKey, attemptId, method, path, code };
        await noteRefused(this.#options.db, row);
        noted = { ...facts, requestId };
      } catch (error) {
        this.#fault('note_refused', error);
      }
    }
    return { kind: 'refused', answer: this.#refuse(noted, refusalOf(code), null) };
  }

  #unavailable(facts: RequestFacts): Answer {
    return this.#refuse(facts, refusalOf('vault_unavailable'), null);
  }

  #refuse(request: RequestFacts, refusal: Refusal, cap: CapUse | null): Answer {
    const { code, status } = refusal;
    this.#options.onEvent({ kind: 'refused', code, status, request, cap });
    return { status, headers: refusal.headers, body: Buffer.from(refusal.body) };
  }

  #fault(where: string, error: unknown): void {
    this.#options.onEvent({ kind: 'fault', where, message: faultText(error) });
  }
}

interface Sending {
  readonly request: Admitted;
  readonly body: Buffer;
  readonly facts: RequestFacts;
  readonly requestId: string;
  readonly stripeCustomer: string | null;
}
