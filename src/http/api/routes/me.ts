import { z } from 'zod';
import { callerOf, ROLES } from '../auth.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';

const me = z.object({
  name: z.string(),
  role: z.enum(ROLES),
  token_id: z.string(),
  mode: z.enum(['test', 'live']),
  account: z.string().meta({ description: 'The Stripe account that is billed' }),
});

/** `GET /v1/me`: who the token is, and what this server bills. Changes nothing. */
export function registerMe(app: ApiApp, { mode, account }: ApiDeps): void {
  app.get(
    '/me',
    {
      config: { access: 'viewer' },
      schema: { tags: ['tokens'], summary: 'Who am I?', response: { 200: me } },
    },
    (request) => {
      const { name, role, tokenId } = callerOf(request);
      return { name, role, token_id: tokenId, mode, account };
    },
  );
}
