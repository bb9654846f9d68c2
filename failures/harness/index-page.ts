import path from 'node:path';
import type { Exhibit, Room } from './exhibit.ts';
import { pageOf } from './report.ts';

/** What each room shows. */
const ROOMS: Readonly<Record<Room, string>> = {
  A: "Keys made inside the client's machinery",
  B: 'Keys made inside the retried function',
  C: 'Fan-out and reconnect',
  D: 'Many schedulers',
  E: 'Keys that look right',
  F: 'The backstop',
  G: 'HTTP',
};

/** The list of exhibits in docs/failures/README.md, room by room. */
export function indexOf(exhibits: readonly Exhibit[]): string {
  const rooms = Map.groupBy(exhibits, ({ room }) => room);
  return [...rooms]
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([room, own]) => {
      const rows = own.map((exhibit) => {
        const page = path.basename(pageOf({ exhibit }));
        return `| [${exhibit.number}](${page}) | ${exhibit.title} | ${exhibit.rule} |`;
      });
      return `## ${room}: ${ROOMS[room]}\n\n| | situation | rule |\n|---|---|---|\n${rows.join('\n')}\n`;
    })
    .join('\n');
}
