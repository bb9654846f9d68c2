CREATE TYPE run_state AS ENUM ('planned', 'charging', 'settling', 'completed', 'stopped');

-- One pass over a period, planned once. The row outlives the workflow billing-<period>: Temporal
-- forgets a closed workflow after retention, this does not.
CREATE TABLE billing_runs (
  namespace        text NOT NULL,
  period           text NOT NULL,
  state            run_state NOT NULL DEFAULT 'planned',
  customer_count   integer NOT NULL,
  planned_by       text NOT NULL,
  planned_at       timestamptz NOT NULL DEFAULT now(),
  completed_at     timestamptz,
  CONSTRAINT billing_runs_pkey PRIMARY KEY (namespace, period),
  CONSTRAINT run_has_customers CHECK (customer_count > 0),
  CONSTRAINT completed_at_iff_over CHECK ((completed_at IS NOT NULL) = (state IN ('completed', 'stopped'))),
  CONSTRAINT run_namespace_is_a_name CHECK (namespace ~ '^[a-z][a-z0-9_-]{0,31}$')
);

-- What a run is expected to take, frozen with its plan: per currency, in minor units.
CREATE TABLE billing_run_totals (
  namespace      text NOT NULL,
  period         text NOT NULL,
  currency       text NOT NULL,
  customer_count integer NOT NULL,
  amount_minor   bigint NOT NULL,
  CONSTRAINT billing_run_totals_pkey PRIMARY KEY (namespace, period, currency),
  CONSTRAINT totals_belong_to_a_run FOREIGN KEY (namespace, period) REFERENCES billing_runs
);

-- What is due, frozen when the run is planned; immutable afterwards. position is the customer's
-- place in the run (1..customer_count): shards are ranges of it, so no list travels in a workflow.
CREATE TABLE billing_items (
  namespace          text NOT NULL,
  period             text NOT NULL,
  customer_id        text NOT NULL,
  position           integer NOT NULL,
  stripe_customer_id text NOT NULL,
  payment_method_id  text,
  amount_minor       bigint NOT NULL,
  currency           text NOT NULL,
  description        text,
  CONSTRAINT billing_items_pkey PRIMARY KEY (namespace, period, customer_id),
  CONSTRAINT item_position_is_unique UNIQUE (namespace, period, position),
  CONSTRAINT item_belongs_to_a_run FOREIGN KEY (namespace, period) REFERENCES billing_runs,
  CONSTRAINT item_amount_in_range CHECK (amount_minor >= 0 AND amount_minor <= 99999999),
  CONSTRAINT item_currency_is_iso CHECK (currency ~ '^[a-z]{3}$')
);
