-- Which Stripe account and mode this database belongs to. One row: a database that was billed
-- against one account must never bill another one, so the first connection writes it and every
-- later one compares.
CREATE TABLE environment (
  singleton      boolean PRIMARY KEY DEFAULT true,
  stripe_account text NOT NULL,
  live_mode      boolean NOT NULL,
  database_id    uuid NOT NULL DEFAULT gen_random_uuid(),
  created_at     timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT environment_is_one_row CHECK (singleton),
  CONSTRAINT environment_account_not_empty CHECK (stripe_account <> '')
);

-- What is due from whom, as the last import left it. A planned run freezes its own copy
-- (billing_items), so changing a row here never changes a period that is already planned.
CREATE TABLE customers (
  customer_id        text PRIMARY KEY,
  stripe_customer_id text NOT NULL,
  payment_method_id  text,
  amount_minor       bigint NOT NULL,
  currency           text NOT NULL,
  description        text,
  active             boolean NOT NULL DEFAULT true,
  created_at         timestamptz NOT NULL DEFAULT now(),
  updated_at         timestamptz NOT NULL DEFAULT now(),
  -- Opaque ASCII: the id travels in workflow ids, headers and logs.
  CONSTRAINT customer_id_is_opaque CHECK (customer_id ~ '^[A-Za-z0-9_.-]{1,64}$'),
  CONSTRAINT customer_amount_not_negative CHECK (amount_minor >= 0 AND amount_minor <= 99999999),
  CONSTRAINT customer_currency_is_iso CHECK (currency ~ '^[a-z]{3}$')
);
