import { integration } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

const ACCESS = 'src/payments/vault-access.ts';

/** The engine behind a vault: whose cap it trusts, and what a closed key means. */
export const VAULT_ENGINE: readonly Mutant[] = [
  {
    id: 'V11',
    bug: "the vault's caps are not held against our own reading of the plan",
    edits: [{ file: ACCESS, find: 'if (difference === null) return;', replace: 'return;' }],
    catcher: integration(
      'vault-engine',
      'a cap from another plan than ours stops the run before anybody is charged',
    ),
  },
  {
    id: 'closed-for-ever',
    bug: 'a key that was closed behind the back of this process is not opened again',
    edits: [
      {
        file: ACCESS,
        find: "if (reply.kind === 'refused' && isAboutKey(reply.refusal)) openings.forget(run, opening);",
        replace: '',
      },
    ],
    catcher: integration(
      'vault-engine',
      'is closed with the run, and a late order opens it again on its next attempt',
    ),
  },
];
