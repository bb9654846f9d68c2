import { integration, unit } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

const LEDGER = 'migrations/0011_vault.sql';
const SWEEP = 'src/vault/sweep.ts';
const ROOM = '          AND w.used_minor + amount <= w.cap_minor\n';
const CAP_HOLDS = '  CONSTRAINT vault_cap_holds CHECK (used_minor - beyond_minor <= cap_minor)\n';
const CAP_OFF = '  CONSTRAINT vault_cap_holds CHECK (true)\n';

/** The cap: what is reserved, settled and given back, and what a look proves. */
export const VAULT: readonly Mutant[] = [
  {
    id: 'M9',
    bug: 'the cap is read, then spent: whether there is room is not asked where it is taken',
    edits: [
      { file: LEDGER, find: ROOM, replace: '' },
      { file: LEDGER, find: CAP_HOLDS, replace: CAP_OFF },
    ],
    catcher: integration(
      'vault-ledger',
      'takes the room that another one took between its glance and its own update for taken',
    ),
  },
  {
    id: 'M9-database',
    bug: "the cap's row takes what goes beyond it",
    edits: [{ file: LEDGER, find: CAP_HOLDS, replace: CAP_OFF }],
    catcher: integration(
      'vault-ledger',
      'refuses what the code could get wrong: beyond the cap, unspent, deleted, settled twice, lowered',
    ),
  },
  {
    id: 'reserved-twice',
    bug: 'a reservation is not keyed: the same key again reserves again',
    edits: [
      {
        file: LEDGER,
        find: 'WHERE v.reservation_id = send.reservation_id FOR UPDATE;',
        replace: 'WHERE false;',
      },
      {
        file: LEDGER,
        find: 'CONSTRAINT reservation_is_of_one_create UNIQUE (key_id, create_key)',
        replace: 'CONSTRAINT reservation_is_of_one_create CHECK (true)',
      },
    ],
    catcher: integration(
      'vault-ledger',
      'is made once for the same key three times, one after the other and at once',
    ),
  },
  {
    id: 'settled-twice',
    bug: 'a success that comes again is counted again',
    edits: [
      {
        file: LEDGER,
        find: "IF r.state = 'spent' OR (r.state = 'released' AND p_to <> 'spent') THEN",
        replace: "IF r.state = 'released' AND p_to <> 'spent' THEN",
      },
      {
        file: LEDGER,
        find: 'CREATE UNIQUE INDEX settled_once',
        replace: 'CREATE INDEX settled_once',
      },
    ],
    catcher: integration(
      'vault-ledger',
      'counts once when it comes twice, by itself, by two at once and by a replay',
    ),
  },
  {
    id: 'released-in-flight',
    bug: 'a decline gives the sum back while another send of the intent is out',
    edits: [
      {
        file: LEDGER,
        find: 'WHERE s.reservation_id = id AND s.unresolved > 0)',
        replace: 'WHERE s.reservation_id = id AND false)',
      },
    ],
    catcher: integration(
      'vault-ledger',
      'that declines gives nothing back while another send of the intent is out',
    ),
  },
  {
    id: 'success-after-release',
    bug: 'a success is passed over when the sum was given back before',
    edits: [
      {
        file: LEDGER,
        find: "IF r.state = 'spent' OR (r.state = 'released' AND p_to <> 'spent') THEN",
        replace: "IF r.state <> 'held' THEN",
      },
    ],
    catcher: integration(
      'vault-ledger',
      'of success is the truth after a release, above a cap that is full by then',
    ),
  },
  {
    id: 'one-object-twice',
    bug: 'an answer settles the reservation of its request, whoever has the object it names',
    edits: [
      {
        file: LEDGER,
        find: '  IF id IS NOT NULL OR p_reservation IS NULL THEN RETURN id; END IF;\n  BEGIN',
        replace:
          '  IF id IS NOT NULL OR p_reservation IS NULL THEN RETURN coalesce(p_reservation, id); END IF;\n  BEGIN',
      },
    ],
    catcher: integration(
      'vault-ledger-twins',
      'counts one object once when a look gave it to the other of two creates alike',
    ),
  },
  {
    id: 'cap-in-floats',
    bug: 'the cap of a run is reckoned in floats',
    edits: [
      {
        file: 'src/domain/spend-cap.ts',
        find: 'const capMinor = expectedMinor + tenthRoundedUp;',
        replace: 'const capMinor = Math.ceil(expectedMinor * 1.1 + 0 * tenthRoundedUp);',
      },
    ],
    catcher: unit('spend-cap', 'of an expected %d is %d'),
  },
  {
    id: 'failed-look-absent',
    bug: 'a look of the sweep that fails means that nothing is there',
    edits: [
      {
        file: SWEEP,
        find: "looked ?? { to: 'held', reason: 'look_failed' }",
        replace: "looked ?? { to: 'absent', reason: 'look_failed' }",
      },
    ],
    catcher: integration(
      'vault-sweep',
      'holds when the look-up fails, however often and however late',
    ),
  },
  {
    id: 'one-look-releases',
    bug: 'one look that sees nothing gives the sum back',
    edits: [
      {
        file: LEDGER,
        find: 'WHEN r.absent_since <= now() - p_quiet AND r.absent_since >= r.last_forward_at + p_quiet',
        replace: 'WHEN now() >= r.last_forward_at + p_quiet',
      },
    ],
    catcher: integration(
      'vault-sweep',
      'keeps what was reserved and never sent, lists it, and gives it back when two looks agree',
    ),
  },
  {
    id: 'look-overtaken',
    bug: 'a look speaks for a send that left after it began',
    edits: [{ file: LEDGER, find: 'AND r.forwards <> p_forwards THEN', replace: 'AND false THEN' }],
    catcher: integration(
      'vault-ledger-random',
      'agrees with a small model after every step of random histories, pairs at once included',
    ),
    stoppedBy: 'Property failed after',
  },
  {
    id: 'renamed-absent',
    bug: 'an intent with money whose metadata was changed since counts as none',
    edits: [
      {
        file: SWEEP,
        find: "if (to === 'spent' || to === 'held')",
        replace: "if (to !== 'spent' && to !== 'held')",
      },
    ],
    catcher: integration(
      'vault-sweep',
      'holds when an intent alike has money and nobody accounts for it: its metadata may be new',
    ),
  },
];
