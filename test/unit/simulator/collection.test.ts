import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Collection } from '../../../src/simulator/collection.ts';

interface Item {
  readonly id: string;
  readonly created: number;
  readonly group: string | null;
}

const items = fc
  .array(
    fc.record({ step: fc.integer({ min: 0, max: 3 }), group: fc.constantFrom('a', 'b', null) }),
    { maxLength: 40 },
  )
  .map((list) => {
    let created = 0;
    return list.map(({ step, group }, n): Item => {
      created += step;
      return { id: `x${n}`, created, group };
    });
  });

const query = fc.record({
  limit: fc.integer({ min: 1, max: 10 }),
  group: fc.constantFrom('a', 'b', 'c', undefined),
  cursor: fc.integer({ min: 0, max: 39 }),
  direction: fc.constantFrom('none', 'after', 'before'),
  from: fc.integer({ min: 0, max: 60 }),
});

describe('a page of a collection', () => {
  test('is what sorting and slicing the whole list would give', () => {
    fc.assert(
      fc.property(items, query, (all, { limit, group, cursor, direction, from }) => {
        const collection = new Collection<Item>((item) => [item.group]);
        for (const item of all) collection.put(item);
        const cursorItem = all[cursor];
        const page = collection.page({
          limit,
          index: group,
          startingAfter: direction === 'after' ? cursorItem?.id : undefined,
          endingBefore: direction === 'before' ? cursorItem?.id : undefined,
          accepts: (item) => item.created >= from,
        });
        let naive = all
          .toReversed()
          .filter((item) => (group === undefined || item.group === group) && item.created >= from);
        const position = (item: Item) => all.indexOf(item);
        if (cursorItem !== undefined && direction === 'after')
          naive = naive.filter((item) => position(item) < cursor);
        if (cursorItem !== undefined && direction === 'before')
          naive = naive.filter((item) => position(item) > cursor);
        const backwards = cursorItem !== undefined && direction === 'before';
        expect(page.data).toEqual(backwards ? naive.slice(-limit) : naive.slice(0, limit));
        expect(page.hasMore).toBe(naive.length > limit);
      }),
    );
  });

  test('shows the newest version of a record that was put twice, at its first place', () => {
    fc.assert(
      fc.property(items, (all) => {
        const collection = new Collection<Item>(() => []);
        for (const item of all) collection.put(item);
        for (const item of all) collection.put({ ...item, group: 'changed' });
        expect(collection.values().map(({ id }) => id)).toEqual(all.map(({ id }) => id));
        expect(collection.values().every(({ group }) => group === 'changed')).toBe(true);
      }),
    );
  });
});
