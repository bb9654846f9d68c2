import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EXHIBITS } from '../../failures/exhibits.ts';
import { openHouse, type House } from '../../failures/harness/house.ts';
import { problemsOf } from '../../failures/harness/report.ts';
import { show } from '../../failures/harness/runner.ts';

let house: House;

beforeAll(async () => {
  house = await openHouse(process.env, () => {});
});
afterAll(() => house.close());

describe('the failure gallery', () => {
  it.each(EXHIBITS.map((exhibit) => [exhibit.number, exhibit.title, exhibit] as const))(
    '%i: %s; the tempting code does its harm, and ours charges once',
    async (_number, _title, exhibit) => {
      expect(problemsOf(await show(exhibit, house))).toEqual([]);
    },
  );
});
