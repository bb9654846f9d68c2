// What Stripe takes as an amount, per currency: https://docs.stripe.com/currencies
// Neither ISO 4217 nor Intl agrees with Stripe on ISK, UGX, HUF, TWD and MGA, so this list is
// Stripe's own and nothing else is asked.

declare const currencyBrand: unique symbol;

/** A lower-case ISO code that Stripe can charge in. */
export type Currency = string & { readonly [currencyBrand]: true };

/** How an amount in this currency is written for Stripe. */
export type CurrencyRule = {
  /** Digits after the decimal point of the major unit. */
  readonly decimals: 0 | 2 | 3;
  /** The amount in minor units must be a multiple of this. */
  readonly stepMinor: 1 | 10 | 100;
};

const TWO_DECIMALS =
  'aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bmd bnd bob brl bsd bwp byn bzd cad ' +
  'cdf chf cny cop crc cve czk dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gtq gyd hkd hnl ' +
  'htg huf idr ils inr jmd kes kgs khr kyd kzt lak lbp lkr lrd lsl mad mdl mkd mmk mnt mop mur ' +
  'mvr mwk mxn myr mzn nad ngn nio nok npr nzd pab pen pgk php pkr pln qar ron rsd rub sar sbd ' +
  'scr sek sgd shp sle sos srd std szl thb tjs top try ttd twd tzs uah usd uyu uzs wst xcd xcg ' +
  'yer zar zmw';

const ZERO_DECIMALS = 'bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf';

// Whole units in real life, two decimals on Stripe's wire for compatibility: 500 is sent as 50000,
// and the last two digits must be 00 (docs.stripe.com/currencies#special-cases).
const WHOLE_UNITS_SENT_WITH_TWO_DECIMALS = 'isk ugx';

// Card networks want the last of the three digits to be 0 (docs.stripe.com/currencies#three-decimal).
const THREE_DECIMALS = 'bhd jod kwd omr tnd';

const RULES: ReadonlyMap<string, CurrencyRule> = new Map([
  ...rules(TWO_DECIMALS, { decimals: 2, stepMinor: 1 }),
  ...rules(ZERO_DECIMALS, { decimals: 0, stepMinor: 1 }),
  ...rules(WHOLE_UNITS_SENT_WITH_TWO_DECIMALS, { decimals: 2, stepMinor: 100 }),
  ...rules(THREE_DECIMALS, { decimals: 3, stepMinor: 10 }),
]);

// Published only for these, and for a settlement in the same currency
// (docs.stripe.com/currencies#minimum-and-maximum-charge-amounts). A currency that is missing here
// may still be refused by Stripe as amount_too_small, which becomes the outcome `misconfigured`.
const MINIMUM_CHARGE_MINOR: Readonly<Record<string, number>> = {
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
  usd: 50,
};

function rules(codes: string, rule: CurrencyRule): [string, CurrencyRule][] {
  return codes.split(' ').map((code) => [code, rule]);
}

function isCurrency(code: string): code is Currency {
  return RULES.has(code);
}

/** The only way to a `Currency`: any case is read, lower case comes out. */
export function parseCurrency(
  text: string,
): { readonly ok: true; readonly currency: Currency } | { ok: false; problem: string } {
  const code = text.toLowerCase();
  if (isCurrency(code)) return { ok: true, currency: code };
  return {
    ok: false,
    problem: `${JSON.stringify(text)} is not a currency Stripe charges in; use an ISO code such as usd`,
  };
}

/** Decimals and step of a currency. */
export function currencyRule(currency: Currency): CurrencyRule {
  const rule = RULES.get(currency);
  if (rule === undefined) throw new RangeError(`Unknown currency: ${currency}`);
  return rule;
}

/** The least Stripe charges; one step where Stripe publishes no minimum. */
export function minimumChargeMinor(currency: Currency): number {
  return MINIMUM_CHARGE_MINOR[currency] ?? currencyRule(currency).stepMinor;
}

/** Every currency we take, in code order. */
export function allCurrencies(): Currency[] {
  return [...RULES.keys()].filter((code) => isCurrency(code)).sort();
}
