import { dayNumber, MS_PER_DAY } from './civil-date.ts';

// One formatter costs some hundred microseconds to build; a billing run asks for one zone.
const formatters = new Map<string, Intl.DateTimeFormat>();

/**
 * True for an IANA zone this machine knows ("UTC", "Europe/Berlin"), written as IANA does: Temporal knows neither
 * "europe/berlin" nor "+05:00", and its Schedules tick in the same zone.
 */
export function isTimeZone(zone: string): boolean {
  if (!/^[A-Z]/.test(zone)) return false;
  try {
    const { timeZone } = formatterOf(zone).resolvedOptions();
    return timeZone === zone || timeZone.toLowerCase() !== zone.toLowerCase();
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** Milliseconds the clock on the wall of a zone is ahead of UTC at an instant. */
export function zoneOffsetMs(instantMs: number, zone: string): number {
  if (zone === 'UTC') return 0;
  const parts: Record<string, number> = {};
  for (const { type, value } of formatterOf(zone).formatToParts(instantMs)) {
    parts[type] = Number(value);
  }
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = parts;
  const wallMs =
    dayNumber({ year, month, day }) * MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000;
  return wallMs - Math.floor(instantMs / 1000) * 1000;
}

/**
 * The first instant at which the clock of a zone shows a day (given as a day number) or later.
 * Exactly one per day and never decreasing, also where midnight is skipped or comes twice.
 */
export function startOfDay(days: number, zone: string): number {
  const midnightMs = days * MS_PER_DAY;
  // Offsets lie between -12 h and +14 h, so these two instants enclose local midnight, and no zone
  // changes its clocks twice within them.
  const before = zoneOffsetMs(midnightMs - 15 * 3_600_000, zone);
  const after = zoneOffsetMs(midnightMs + 13 * 3_600_000, zone);
  const byBefore = midnightMs - before;
  if (zoneOffsetMs(byBefore, zone) === before) return byBefore;
  const byAfter = midnightMs - after;
  if (zoneOffsetMs(byAfter, zone) === after) return byAfter;
  return offsetChange({ beforeMs: byAfter, afterMs: byBefore, offsetAfter: after, zone });
}

/** Midnight was skipped: the day begins when the clocks are put forward. */
function offsetChange(search: {
  beforeMs: number;
  afterMs: number;
  offsetAfter: number;
  zone: string;
}): number {
  let { beforeMs, afterMs } = search;
  while (afterMs - beforeMs > 1) {
    const middle = Math.floor((beforeMs + afterMs) / 2);
    if (zoneOffsetMs(middle, search.zone) === search.offsetAfter) afterMs = middle;
    else beforeMs = middle;
  }
  return afterMs;
}

function formatterOf(zone: string): Intl.DateTimeFormat {
  const known = formatters.get(zone);
  if (known !== undefined) return known;
  const formatter = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    calendar: 'gregory',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  });
  formatters.set(zone, formatter);
  return formatter;
}
