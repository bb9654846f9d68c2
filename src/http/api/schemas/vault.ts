import { z } from 'zod';
import { customerId, pageOf, pageShape, period, reason, time } from './common.ts';
import { vaultRequest } from './story.ts';

const minor = z.int().meta({ description: 'In minor units of the currency' });
const currency = z.string().regex(/^[A-Za-z]{3}$/, 'must be a currency such as usd');
const keyId = z
  .string()
  .regex(/^[0-9a-f]{16}$/, 'a vault key is named by its id, 16 hex digits')
  .meta({ description: 'The id of a vault key: the part of it after its mode' });

/** The mark keeps a cursor of another list from being taken for one of this. */
const keyCursor = z.tuple([z.literal('vault-key'), z.int(), keyId]);

export const vaultKeysQuery = z.strictObject(pageShape(keyCursor));
export const vaultKeyParams = z.strictObject({ id: keyId });

export const vaultKey = z
  .object({
    id: z.string(),
    vendor: z.literal('stripe'),
    account: z.string(),
    livemode: z.boolean(),
    status: z.enum(['active', 'closed', 'expired', 'revoked']),
    cap_basis: z.string(),
    namespace: z.string().nullable(),
    billing_period: z.string().nullable(),
    caps: z.array(
      z.object({
        currency: z.string(),
        window: z.string().nullable().meta({ description: 'The UTC date of a cap per day' }),
        cap: minor,
        expected: minor.nullable(),
        reserved: minor,
        spent: minor,
        remaining: minor,
      }),
    ),
    allowed_endpoints: z.array(z.string()),
    expires_at: time,
    open_until: time
      .nullable()
      .meta({ description: 'Until when it sends; null: until it expires' }),
    revoked_at: time.nullable(),
    created_at: time,
    created_by: z.string(),
  })
  .meta({ id: 'VaultKey' });

export const vaultKeys = pageOf(vaultKey);

export const createdVaultKey = vaultKey
  .extend({ key: z.string().meta({ description: 'The key itself, shown this once' }) })
  .meta({ id: 'CreatedVaultKey' });

/** What a key may spend; the vault itself checks how the parts go together. */
export const vaultKeyBody = z.strictObject({
  vendor: z.literal('stripe').default('stripe'),
  max_amount: minor.min(1).optional(),
  daily_usd_cap: z
    .union([z.number(), z.string().max(20)])
    .optional()
    .meta({
      description: 'Instead of max_amount: dollars per UTC day',
    }),
  currency: currency.optional().meta({ description: 'Of max_amount' }),
  cap_basis: z.enum(['billing_period', 'day', 'total']).optional(),
  billing_period: z.string().max(40).optional(),
  allowed_endpoints: z.array(z.string().max(300)).min(1).max(50),
  expires_at: z.iso.datetime({ offset: true }).optional(),
  reason,
});

/** One change at a time: a cap that rises, or an end that comes later. */
export const vaultKeyChange = z.strictObject({
  currency: currency.optional(),
  max_amount: minor.min(1).optional(),
  expires_at: z.iso.datetime({ offset: true }).optional(),
  reason,
});

/** At least one of the first four, so that the log is never read as a whole. */
export const vaultLogQuery = z
  .strictObject({
    idempotency_key: z
      .string()
      .regex(/^[\x20-\x7e]{1,255}$/, 'must be 1 to 255 printable ASCII characters')
      .optional(),
    customer: customerId.optional(),
    period: period.optional(),
    vault_key: keyId.optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(200).meta({
      description: 'The newest requests that fit all of them',
    }),
  })
  .refine(
    (query) =>
      [query.idempotency_key, query.customer, query.period, query.vault_key].some(
        (one) => one !== undefined,
      ),
    {
      message: 'say what to look for: idempotency_key, customer, period or vault_key',
      path: ['idempotency_key'],
    },
  );

export const vaultLog = z.object({
  answer: z.string().meta({
    description: 'Did it go out twice, or did the retry never reach the network? In one sentence',
  }),
  truncated: z.boolean().meta({ description: 'true: there are older requests that fit' }),
  data: z.array(vaultRequest),
});
