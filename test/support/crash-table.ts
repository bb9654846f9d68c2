/** How the blow comes: to the worker, to the Temporal server, to PostgreSQL, or to the answer in flight. */
export type Kill = 'W' | 'T' | 'P' | 'R';

interface Row {
  readonly point: string;
  /** ends the sentence "… is killed …" */
  readonly place: string;
  readonly kills: readonly Kill[];
  /** what is lost, or what is special, in the title's own words */
  readonly instead?: Partial<Record<Kill, string>>;
}

/** Every place a crash can fall in one customer's charge × every kind that can fall there. The tests derive from it. */
const CRASH_TABLE: readonly Row[] = [
  { point: 'C1', place: 'before the claim commits', kills: ['W', 'T', 'P'] },
  {
    point: 'C2',
    place: 'after the claim committed and before its marker is in the history',
    kills: ['W', 'T', 'P', 'R'],
    instead: { R: "the answer to the claim's commit is lost" },
  },
  { point: 'C3', place: 'before the create is sent', kills: ['W', 'T', 'P'] },
  {
    point: 'C4',
    place: 'after the create was sent and before Stripe executes it',
    kills: ['W', 'R'],
    instead: { R: 'the connection breaks after the create was sent, and Stripe executes nothing' },
  },
  {
    point: 'C5',
    place: 'after the create was executed and before its reply',
    kills: ['W', 'T', 'R'],
    instead: { R: "Stripe's reply to the executed create is dropped" },
  },
  {
    point: 'C6',
    place: "after the create's reply and before pi_ is committed",
    kills: ['W', 'P'],
  },
  {
    point: 'C7',
    place: 'after pi_ was committed and before the confirm is sent',
    kills: ['W', 'T', 'P', 'R'],
    instead: { R: 'the answer to the commit of pi_ is lost before the confirm is sent' },
  },
  {
    point: 'C8',
    place: 'after the confirm was sent and before Stripe executes it',
    kills: ['W', 'R'],
    instead: { R: 'the connection breaks after the confirm was sent, and Stripe executes nothing' },
  },
  {
    point: 'C9',
    place: 'after the confirm was executed and before its reply',
    kills: ['W', 'T', 'P', 'R'],
    instead: { R: "Stripe's reply to the executed confirm is dropped" },
  },
  {
    point: 'C10',
    place: "after the confirm's reply and before the completion is at the Temporal server",
    kills: ['W', 'T', 'R'],
    instead: { R: 'the completion is swallowed by the network on its way to the Temporal server' },
  },
  {
    point: 'C11',
    place: 'after the completion is stored and before the next workflow task begins',
    kills: ['W', 'T'],
    instead: {
      W: 'the workflow worker is killed, and the completion is stored before its successor begins the next workflow task',
    },
  },
  { point: 'C12', place: 'before record commits', kills: ['W', 'T', 'P'] },
  {
    point: 'C13',
    place: 'after record committed and before its marker is in the history',
    kills: ['W', 'T', 'P', 'R'],
    instead: { R: "the answer to record's commit is lost" },
  },
  { point: 'C14', place: 'while a shard continues as new', kills: ['W', 'T'] },
  {
    point: 'C15',
    place: "after the tick started and before the run's start is confirmed",
    kills: ['W', 'T'],
  },
  {
    point: 'C16',
    place: 'during the purge of old keys and responses',
    kills: ['W', 'P'],
  },
];

const BLOW: Record<Kill, string> = {
  W: 'the worker is killed',
  T: 'the Temporal server is killed and started from its file',
  P: 'PostgreSQL stops at once and starts again',
  R: 'the answer in flight is lost',
};

export interface Cell {
  /** `C9/W` */
  readonly id: string;
  readonly point: string;
  readonly kill: Kill;
  readonly title: string;
  /** the one customer of the wave whom it meets here */
  readonly customer: string;
}

/** The 45 cells, in the table's order. */
export const CELLS: readonly Cell[] = CRASH_TABLE.flatMap(({ point, place, kills, instead }) =>
  kills.map((kill) => {
    const what = point === 'C16' ? 'loses nothing' : 'charges once';
    return {
      id: `${point}/${kill}`,
      point,
      kill,
      title: `${point}/${kill} ${what} when ${instead?.[kill] ?? `${BLOW[kill]} ${place}`}`,
      customer: customerOf(point, kill),
    };
  }),
);

/** Two digits, so that no id is the beginning of another one. */
export function customerOf(point: string, kill: Kill): string {
  return `${kill.toLowerCase()}_c${point.slice(1).padStart(2, '0')}`;
}

/** The cells that stand in one customer's charge, not in a shard, a tick or the purge. */
export function slotCellsOf(kill: Kill): readonly Cell[] {
  return cellsOf(kill).filter(({ point }) => !['C14', 'C15', 'C16'].includes(point));
}

export function cellsOf(kill: Kill): readonly Cell[] {
  return CELLS.filter((cell) => cell.kill === kill);
}
