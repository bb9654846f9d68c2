import { badParameter } from './errors.ts';

// Stripe's own lists, not ISO 4217: https://docs.stripe.com/currencies
// Zero-decimal needs no check of its own here, an amount is an integer in the minor unit either way;
// the minimums below are in that unit.
const CURRENCIES = new Set(
  (
    'usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf ' +
    'chf clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl hrk htg ' +
    'huf idr ils inr isk jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt ' +
    'mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar ' +
    'sbd scr sek sgd shp sle sos srd std szl thb tjs tnd top try ttd twd tzs uah ugx uyu uzs vnd vuv wst xaf xcd ' +
    'xcg xof xpf yer zar zmw'
  ).split(' '),
);

// Sent with two decimals for old times' sake, which must be 00: https://docs.stripe.com/currencies#special-cases
const WHOLE_UNITS_ONLY = new Set(['isk', 'ugx']);
// Card networks want the last of three decimals to be 0: https://docs.stripe.com/currencies#three-decimal
const THREE_DECIMALS = new Set(['bhd', 'jod', 'kwd', 'omr', 'tnd']);

// https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts
const MINIMUM: Readonly<Record<string, number>> = {
  usd: 50,
  aed: 200,
  aud: 50,
  bgn: 100,
  brl: 50,
  cad: 50,
  chf: 50,
  czk: 1500,
  dkk: 250,
  eur: 50,
  gbp: 30,
  hkd: 400,
  huf: 17_500,
  inr: 50,
  jpy: 50,
  mxn: 1000,
  myr: 200,
  nok: 300,
  nzd: 50,
  pln: 200,
  ron: 200,
  sek: 300,
  sgd: 50,
  thb: 1000,
};
const MAX_AMOUNT = 99_999_999;

/** The currency in lower case; Stripe accepts either case and answers in lower. */
export function readCurrency(value: string | undefined): string {
  if (value === undefined || value === '') {
    throw badParameter('currency', 'Missing required param: currency.', 'parameter_missing');
  }
  const currency = value.toLowerCase();
  if (!CURRENCIES.has(currency)) throw badParameter('currency', `Invalid currency: ${value}.`);
  return currency;
}

/** An amount in the currency's minor unit, within Stripe's limits. */
export function readAmount(value: string | undefined, currency: string): number {
  if (value === undefined || value === '') {
    throw badParameter('amount', 'Missing required param: amount.', 'parameter_missing');
  }
  if (!/^-?\d{1,15}$/.test(value)) {
    throw badParameter('amount', `Invalid integer: ${value}`, 'parameter_invalid_integer');
  }
  const amount = Number(value);
  if (amount < 1) {
    throw badParameter(
      'amount',
      'This value must be greater than or equal to 1.',
      'parameter_invalid_integer',
    );
  }
  if (amount > MAX_AMOUNT) {
    throw badParameter('amount', 'Amount must be no more than 8 digits.', 'amount_too_large');
  }
  if (WHOLE_UNITS_ONLY.has(currency) && amount % 100 !== 0) {
    throw badParameter('amount', `Amounts in ${currency} end in 00.`, 'parameter_invalid_integer');
  }
  if (THREE_DECIMALS.has(currency) && amount % 10 !== 0) {
    throw badParameter('amount', `Amounts in ${currency} end in 0.`, 'parameter_invalid_integer');
  }
  const minimum = MINIMUM[currency] ?? 1;
  if (amount < minimum) {
    throw badParameter(
      'amount',
      `Amount must be at least ${minimum} ${currency} (minor unit).`,
      'amount_too_small',
    );
  }
  return amount;
}
