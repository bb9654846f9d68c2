import { parseCurrency } from './currencies.ts';
import { formatMoney } from './money.ts';

/** "17.99 USD" for people; a currency we do not know is shown in its minor unit instead of failing. */
export function describeAmount(amountMinor: number, currency: string): string {
  const parsed = parseCurrency(currency);
  if (parsed.ok) return formatMoney(amountMinor, parsed.currency);
  return `${amountMinor} ${currency} (minor units)`;
}
