import { describe, expect, it } from 'vitest';
import { Gate } from '../../src/http/gate.ts';

describe('Gate', () => {
  it('lets in no more at once than it has room for, and another when one leaves', () => {
    const gate = new Gate({ concurrent: 2, perSecond: 100, burst: 100 }, () => 0);
    expect([gate.enter(), gate.enter(), gate.enter()]).toEqual(['in', 'in', 'full']);
    gate.leave();
    expect(gate.enter()).toBe('in');
  });

  it('lets in a burst, then as many as its rate, whatever the length of the quiet time', () => {
    let now = 0;
    const gate = new Gate({ concurrent: 1_000, perSecond: 10, burst: 3 }, () => now);
    const enter = (count: number) => Array.from({ length: count }, () => gate.enter());
    expect(enter(4)).toEqual(['in', 'in', 'in', 'tooFast']);
    now = 100;
    expect(enter(2)).toEqual(['in', 'tooFast']);
    now = 3_600_000;
    expect(enter(4)).toEqual(['in', 'in', 'in', 'tooFast']);
  });

  it('gives nothing for a clock that goes back', () => {
    let now = 1_000;
    const gate = new Gate({ concurrent: 10, perSecond: 1, burst: 1 }, () => now);
    expect(gate.enter()).toBe('in');
    now = 0;
    expect(gate.enter()).toBe('tooFast');
  });
});
