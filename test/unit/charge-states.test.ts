import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { claimAnswerOf } from '../../src/db/slots.ts';
import { SLOT_ARROWS, type SlotState } from '../../src/domain/charge.ts';

/** The picture in docs/state-machine.md, as from → to. */
const DOCUMENTED = documentedArrows();

function documentedArrows(): string[] {
  const url = new URL('../../docs/state-machine.md', import.meta.url);
  const picture =
    /```mermaid\nstateDiagram-v2\n([\s\S]*?)```/.exec(readFileSync(url, 'utf8'))?.[1] ?? '';
  return [...picture.matchAll(/^\s*(\w+) --> (\w+)/gm)]
    .map(([, from, to]) => `${from} → ${to}`)
    .sort();
}

describe('the states of a slot', () => {
  it('move along the arrows of the documented picture', () => {
    const arrows = Object.entries(SLOT_ARROWS).flatMap(([from, states]) =>
      states.map((to) => `${from} → ${to}`),
    );
    expect(arrows.sort()).toEqual(DOCUMENTED);
    expect(DOCUMENTED.length).toBeGreaterThan(20);
  });

  it('never lead out of charged, and reach charged only from where Stripe was asked', () => {
    expect(SLOT_ARROWS.charged).toEqual([]);
    const into = Object.entries(SLOT_ARROWS).filter(([, to]) => to.includes('charged'));
    expect(into.map(([from]) => from).sort()).toEqual([
      'blocked',
      'declined',
      'in_review',
      'indeterminate',
      'misconfigured',
      'sent',
    ]);
  });

  it('never turn what was declined into unknown, or unknown into skipped', () => {
    expect(SLOT_ARROWS.declined).not.toContain('indeterminate');
    expect(SLOT_ARROWS.indeterminate).not.toContain('skipped');
  });
});

describe('claimAnswerOf', () => {
  const slot = (state: SlotState) => ({ state, generation: 2, reason: 'why' });

  it.each<[SlotState, object]>([
    ['claimed', { kind: 'resumed', generation: 2 }],
    ['sent', { kind: 'resumed', generation: 2 }],
    ['charged', { kind: 'alreadyCharged' }],
    ['declined', { kind: 'declinedBefore', outcome: 'declined', reason: 'why' }],
    ['misconfigured', { kind: 'declinedBefore', outcome: 'misconfigured', reason: 'why' }],
    ['blocked', { kind: 'declinedBefore', outcome: 'blocked', reason: 'why' }],
    ['indeterminate', { kind: 'inDoubt', generation: 2, reason: 'why' }],
    ['in_review', { kind: 'inDoubt', generation: 2, reason: 'why' }],
  ])('lets a caller who finds a slot %s do only that: %o', (state, answer) => {
    expect(claimAnswerOf(slot(state))).toEqual(answer);
  });

  it('tells why a slot was skipped', () => {
    expect(claimAnswerOf({ state: 'skipped', generation: 1, reason: 'nothing_due' })).toEqual({
      kind: 'skipped',
      reason: 'nothing_due',
    });
  });
});
