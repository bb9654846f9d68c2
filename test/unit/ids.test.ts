import { describe, expect, it } from 'vitest';
import {
  customerWorkflowId,
  groupWorkflowId,
  runWorkflowId,
  scheduleId,
  settleWorkflowId,
  shardWorkflowId,
  tickWorkflowId,
} from '../../src/domain/ids.ts';
import { runRef, slotRef } from '../support/names.ts';

const base = runRef('2026-11');
const overage = runRef('2026-11', 'overage');

describe('workflow ids', () => {
  it('of a run are billing-<period>, with the namespace when it is not base', () => {
    expect(runWorkflowId(base)).toBe('billing-2026-11');
    expect(runWorkflowId(overage)).toBe('billing-2026-11.overage');
  });

  it('of the nodes below a run start with its own', () => {
    expect(shardWorkflowId(base, 3)).toBe('billing-2026-11/shards/3');
    expect(groupWorkflowId(base, 1, 0)).toBe('billing-2026-11/groups/1.0');
    expect(settleWorkflowId(base, '2')).toBe('billing-2026-11/settle/2');
    expect(customerWorkflowId(slotRef('cust_1', base))).toBe('billing-2026-11/cust_1');
    expect(customerWorkflowId(slotRef('cust_1', overage))).toBe('billing-2026-11.overage/cust_1');
  });

  it('of a schedule and its tick name the namespace when it is not base', () => {
    expect([scheduleId(base.namespace), tickWorkflowId(base.namespace)]).toEqual([
      'billing-schedule',
      'billing-tick',
    ]);
    expect([scheduleId(overage.namespace), tickWorkflowId(overage.namespace)]).toEqual([
      'billing-schedule.overage',
      'billing-tick.overage',
    ]);
  });

  it('stay under 200 characters with the longest names there are', () => {
    const longest = slotRef('x'.repeat(64), runRef('2026-11-29', `n${'a'.repeat(31)}`));
    expect(customerWorkflowId(longest).length).toBeLessThan(200);
  });

  it('of customers never meet those of shards, groups or settle rounds, whatever a customer is called', () => {
    for (const name of ['shards', 'groups', 'settle', '0', 'shards.0']) {
      const id = customerWorkflowId(slotRef(name, base));
      expect(id.split('/')).toHaveLength(2);
      expect([
        shardWorkflowId(base, 0),
        groupWorkflowId(base, 1, 0),
        settleWorkflowId(base, '1'),
      ]).not.toContain(id);
    }
  });
});
