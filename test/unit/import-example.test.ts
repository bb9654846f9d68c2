import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parseHeader } from '../../src/import/csv-header.ts';
import { openCsv } from '../../src/import/csv-records.ts';
import { checkRow } from '../../src/import/customer-row.ts';
import type { CustomerRow } from '../../src/import/customer-row.ts';

const EXAMPLE = fileURLToPath(new URL('../../examples/customers.csv', import.meta.url));
const MAKER = fileURLToPath(new URL('../../examples/make-customers.ts', import.meta.url));

async function customers(): Promise<CustomerRow[]> {
  const [first, ...records] = await Array.fromAsync((await openCsv(EXAMPLE)).records());
  const header = parseHeader(first?.fields ?? [], 1);
  if (!header.ok) throw new Error(JSON.stringify(header.problems));
  return records.map(({ line, fields }) => {
    const { row, problems } = checkRow(header.columns, fields);
    if (row === undefined) throw new Error(`line ${line}: ${JSON.stringify(problems)}`);
    return row;
  });
}

describe('the example customers', () => {
  test('are what their script writes', () => {
    const made = execFileSync(process.execPath, [MAKER], { encoding: 'utf8' });
    expect(made).toBe(readFileSync(EXAMPLE, 'utf8'));
  });

  test('are 500 active ones with ids of their own', async () => {
    const rows = await customers();
    expect(rows).toHaveLength(500);
    expect(new Set(rows.map(({ customerId }) => customerId)).size).toBe(500);
    expect(new Set(rows.map(({ stripeCustomerId }) => stripeCustomerId)).size).toBe(500);
    expect(rows.every(({ active }) => active)).toBe(true);
  });

  test('bring every case a run has to tell apart', async () => {
    const rows = await customers();
    const methods = rows.map(({ paymentMethodId }) => paymentMethodId ?? '');
    expect({
      withoutPaymentMethod: methods.filter((method) => method === '').length,
      withNothingToCharge: rows.filter(({ amountMinor }) => amountMinor === 0).length,
      declined: methods.filter((method) => method.includes('Declined')).length,
      needingTheCustomer: methods.filter((method) => method.endsWith('authenticationRequired'))
        .length,
    }).toEqual({
      withoutPaymentMethod: 10,
      withNothingToCharge: 8,
      declined: 10,
      needingTheCustomer: 2,
    });
    const currencies = new Set(rows.map(({ currency }) => String(currency)));
    expect([...currencies]).toEqual(expect.arrayContaining(['usd', 'jpy', 'kwd', 'isk', 'ugx']));
  });
});
