import { describe, expect, it } from 'vitest';
import { openIn } from '../../src/cli/run-report.ts';
import type { RunSummary } from '../../src/db/run-summary.ts';
import { NO_OUTCOMES } from '../../src/domain/charge.ts';

const completed: RunSummary = {
  state: 'completed',
  control: 'running',
  controlNote: null,
  customers: 4,
  counts: { ...NO_OUTCOMES, charged: 3, declined: 1 },
  inProgress: 0,
  inReview: 0,
  processing: 0,
  unclaimed: 0,
  chargedMinorByCurrency: {},
  expectedMinorByCurrency: {},
  plannedAt: new Date(0),
  completedAt: new Date(0),
};

describe('openIn', () => {
  it('counts nobody when each customer has a final outcome', () => {
    expect(openIn(completed)).toBe(0);
  });

  it.each([
    ['unknown', { counts: { ...NO_OUTCOMES, charged: 3, indeterminate: 1 } }],
    ['sent and not recorded', { counts: { ...NO_OUTCOMES, charged: 3 }, inProgress: 1 }],
    ['with a person', { counts: { ...NO_OUTCOMES, charged: 3 }, inReview: 1 }],
    ['not claimed', { counts: { ...NO_OUTCOMES, charged: 3 }, unclaimed: 1 }],
  ])('counts a customer of a completed run who is %s', (_, found) => {
    expect(openIn({ ...completed, ...found })).toBe(1);
  });
});
