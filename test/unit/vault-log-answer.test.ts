import { describe, expect, it } from 'vitest';
import type { LogAnswer, LogRow } from '../../src/db/vault-log.ts';
import { answerLog } from '../../src/vault-log-answer.ts';

let next = 0;

/** A forwarded create of reservation 1 under key k1, answered 200; each a second after the last. */
function row(parts: Partial<LogRow> = {}): LogRow {
  next += 1;
  return {
    requestId: `request-${next}`,
    at: new Date(Date.UTC(2026, 10, 29, 12, 0, next)),
    keyId: 'aaaaaaaaaaaaaaaa',
    idempotencyKey: 'k1',
    attemptId: null,
    method: 'POST',
    path: '/v1/payment_intents',
    decision: 'forward',
    amountMinor: 1_500,
    currency: 'usd',
    namespace: 'base',
    period: '2026-11',
    customerId: 'c1',
    answer: answer(),
    reservation: reservation('held'),
    ...parts,
  };
}

function answer(parts: Partial<LogAnswer> = {}): LogAnswer {
  return {
    at: new Date(0),
    status: 200,
    error: null,
    stripeRequestId: 'req_1',
    replayed: false,
    effect: 'held',
    durationMs: 100,
    ...parts,
  };
}

function reservation(state: 'held' | 'spent' | 'released', id = 1) {
  return { id, state, reason: 'test', objectId: `pi_${id}` };
}

const lost = (): LogAnswer => answer({ status: null, error: 'econnreset', stripeRequestId: null });
const refused = (code: string, parts: Partial<LogRow> = {}): LogRow =>
  row({ decision: code, answer: null, reservation: null, ...parts });
const confirm = (parts: Partial<LogRow> = {}): LogRow =>
  row({ idempotencyKey: 'k2', path: '/v1/payment_intents/pi_1/confirm', ...parts });

describe('what the log answers about one idempotency key', () => {
  it('says that it never reached the vault when there is nothing', () => {
    expect(answerLog([], { idempotencyKey: 'k9', period: '2026-11' })).toBe(
      'Never reached the vault: no request is known with the idempotency key k9 in 2026-11.',
    );
  });

  it('says that one which was let out and then not sent any more never left', () => {
    const late = row({
      answer: answer({ status: null, error: 'not_sent_too_late', stripeRequestId: null }),
    });
    expect(answerLog([late], {})).toBe(
      'Refused here, never forwarded: 1 request (not_sent_too_late), and nothing reached Stripe.',
    );
    expect(answerLog([late, row()], {})).toMatch(
      /^It went out once, at .*; 1 more request never reached the network, refused here \(not_sent_too_late\)\.$/,
    );
  });

  it('says that it was refused here and never forwarded', () => {
    const rows = [refused('spend_cap_exceeded'), refused('spend_cap_exceeded')];
    expect(answerLog(rows, {})).toBe(
      'Refused here, never forwarded: 2 requests (spend_cap_exceeded), and nothing reached Stripe.',
    );
  });

  it('says that it went out once, and what Stripe answered', () => {
    const one = row();
    expect(answerLog([one], {})).toBe(
      `It went out once, at ${one.at.toISOString()}: Stripe answered 200, req_1.`,
    );
  });

  it('says that the retry never reached the network when it was refused here', () => {
    expect(answerLog([row(), refused('idempotency_key_reused')], {})).toMatch(
      /^It went out once, .*; 1 more request never reached the network, refused here \(idempotency_key_reused\)\.$/,
    );
  });

  it('says that Stripe executed the first and answered the others with its saved reply', () => {
    const rows = [
      row(),
      row({ answer: answer({ replayed: true, stripeRequestId: 'req_2' }) }),
      row({ answer: answer({ replayed: true, stripeRequestId: 'req_3' }) }),
    ];
    const said =
      'It went out 3 times under one key: Stripe executed the first (Stripe answered 200, req_1), and answered 2 with its saved reply.';
    expect(answerLog(rows, {})).toBe(said);
    expect(answerLog(rows.toReversed(), {})).toBe(said);
  });

  it('says that a lost one was executed when its repeat got the saved reply', () => {
    const rows = [row({ answer: lost() }), row({ answer: answer({ replayed: true }) })];
    expect(answerLog(rows, {})).toMatch(
      /^It went out twice under one key: Stripe executed one whose reply was lost, and answered another with its saved reply/,
    );
  });

  it('says that a lost one did nothing when its repeat was executed', () => {
    expect(answerLog([row({ answer: lost() }), row()], {})).toMatch(
      /Stripe executed the second .*, and one got no answer and did nothing\.$/,
    );
  });

  it('says that nobody knows when the only reply was lost', () => {
    const said = answerLog([row({ answer: lost() })], {});
    expect(said).toMatch(/^It went out once, at .*, and nobody knows what became of it: the reply/);
    expect(said).toContain('the reply was lost, econnreset; its sum stays reserved');
  });

  it('says that nobody knows when no answer was ever written down', () => {
    expect(answerLog([row({ answer: null })], {})).toContain('no answer has been written down');
  });

  it('does not take a 500 or a 409 for an answer', () => {
    for (const status of [500, 409]) {
      const said = answerLog([row({ answer: answer({ status }) })], {});
      expect(said).toContain('nobody knows what became of it');
    }
  });

  it('says what a later look at Stripe found', () => {
    const look = (state: 'spent' | 'released') =>
      answerLog([row({ answer: lost(), reservation: reservation(state) })], {});
    expect(look('spent')).toMatch(/; a later look at Stripe found that it succeeded\.$/);
    expect(look('released')).toMatch(/; a later look at Stripe found that no money was taken\.$/);
  });

  it('accuses Stripe when one key was executed twice', () => {
    expect(answerLog([row(), row()], {})).toContain('which one key does not allow');
  });
});

describe('what the log answers about a customer', () => {
  const spent = { answer: answer({ effect: 'spent' }), reservation: reservation('spent') };

  it('knows a create and its confirm for one payment', () => {
    expect(answerLog([row({ reservation: reservation('spent') }), confirm(spent)], {})).toBe(
      'It went out once: one payment, in 2 steps with a key each, and it succeeded: money was taken once.',
    );
  });

  it('counts repeats and refusals beside the one payment', () => {
    const rows = [
      row({ reservation: reservation('spent') }),
      confirm({ ...spent, answer: lost() }),
      confirm({ ...spent, answer: answer({ effect: 'spent', replayed: true }) }),
      refused('spend_cap_exceeded', { idempotencyKey: 'k3' }),
    ];
    expect(answerLog(rows, {})).toBe(
      'It went out once: one payment, in 2 steps with a key each, and it succeeded: money was taken once; ' +
        '1 request only repeated a key, which Stripe executes once; ' +
        '1 more request never reached the network, refused here (spend_cap_exceeded).',
    );
  });

  it('takes a refused repeat for the same charge, also where no customer is named', () => {
    const unnamed = { customerId: null, namespace: null, period: null };
    const rows = [refused('spend_cap_exceeded', unnamed), row(unnamed)];
    expect(answerLog(rows, {})).toMatch(
      /^It went out once, at .*: Stripe answered 200, req_1; 1 more request never reached the network/,
    );
  });

  it('says of a create without a confirm that it is open, and of a lost confirm that nobody knows', () => {
    const created = row({
      reservation: { ...reservation('held'), reason: 'requires_confirmation' },
    });
    const declined = refused('vault_key_closed', { idempotencyKey: 'k2' });
    expect(answerLog([created, declined], {})).toContain(
      'it is still open (requires_confirmation)',
    );
    expect(answerLog([created, confirm({ answer: lost() })], {})).toContain(
      'nobody knows yet whether money was taken (the reply was lost, econnreset)',
    );
  });

  it('says that no money was taken after a decline', () => {
    const released = { reservation: reservation('released') };
    const declined = answer({ status: 402, effect: 'released' });
    expect(answerLog([row(released), confirm({ ...released, answer: declined })], {})).toContain(
      'and no money was taken (Stripe answered 402, req_1)',
    );
  });

  it('says that two different keys went out, and which of them took money', () => {
    const second = { idempotencyKey: 'other', reservation: reservation('released', 2) };
    expect(answerLog([row(spent), row(second)], {})).toBe(
      'It went out twice: 2 payments under different keys, and one of them succeeded: money was taken once.',
    );
    const both = { ...second, answer: answer({ effect: 'spent' }) };
    expect(answerLog([row(spent), row(both)], {})).toContain('money was taken twice');
  });

  it('sums up several customers, and says when one was sent twice', () => {
    const other = { customerId: 'c2', idempotencyKey: 'k9', reservation: reservation('held', 9) };
    expect(answerLog([row(spent), row(other)], {})).toBe(
      'Of 2 charges none went out twice; 2 went out once; money was taken for 1; 1 still open.',
    );
    const again = row({ ...spent, idempotencyKey: 'k8', reservation: reservation('spent', 8) });
    expect(answerLog([row(spent), row(other), again], {})).toMatch(
      /^Of 2 charges 1 went out more than once under different keys, and 1 took money more than once; 1 went out once; /,
    );
  });

  it('says of reads that nothing was sent', () => {
    const read = row({ method: 'GET', idempotencyKey: null, reservation: null });
    expect(answerLog([read], {})).toBe('Nothing was sent: 1 request, all of them only read.');
  });
});
