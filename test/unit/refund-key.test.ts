import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  idempotencyKey,
  refundKey,
  type RefundKeyParts,
} from '../../src/domain/idempotency-key.ts';
import { slotRef } from '../support/names.ts';

const parts = (more: Partial<RefundKeyParts> = {}): RefundKeyParts => ({
  account: 'acct_1',
  mode: 'test',
  chargeId: 'ch_1',
  planId: 1,
  line: 1,
  ...more,
});

describe('refundKey', () => {
  it('N8: is the same string in every build', () => {
    expect(refundKey(parts())).toBe(
      'refund.v1.c9b69af2692b17ab15e348aaf8ff5f2b32e7ca9b7b308c3de69c6f3e6c8d78ea',
    );
  });

  it('C6: differs for two refunds of one charge, and is one for a refund that is sent again', () => {
    expect(refundKey(parts({ planId: 2 }))).not.toBe(refundKey(parts()));
    expect(refundKey(parts({ line: 2 }))).not.toBe(refundKey(parts()));
    expect(refundKey(parts())).toBe(refundKey(parts()));
  });

  it('D1, D2: differs from the keys of create and confirm', () => {
    const charge = { account: 'acct_1', mode: 'test', ...slotRef('ch_1'), generation: 1 } as const;
    const keys = [
      idempotencyKey({ ...charge, operation: 'create' }),
      idempotencyKey({ ...charge, operation: 'confirm' }),
      refundKey(parts()),
    ];
    expect(new Set(keys).size).toBe(3);
  });

  it('L2, L3: differs where parts joined without a frame would share a key', () => {
    const keyOf = (more: Partial<RefundKeyParts>) => refundKey(parts(more));
    expect(keyOf({ planId: 11, line: 1 })).not.toBe(keyOf({ planId: 1, line: 11 }));
    expect(keyOf({ chargeId: 'ch_11' })).not.toBe(keyOf({ chargeId: 'ch_1', planId: 11 }));
    const texts = fc.tuple(fc.string(), fc.string());
    fc.assert(
      fc.property(texts, texts, ([account, chargeId], [otherAccount, otherCharge]) => {
        fc.pre(account !== otherAccount || chargeId !== otherCharge);
        const other = keyOf({ account: otherAccount, chargeId: otherCharge });
        return keyOf({ account, chargeId }) !== other;
      }),
    );
  });
});
