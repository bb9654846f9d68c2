CREATE TYPE slot_state AS ENUM (
  'claimed', 'sent', 'charged', 'declined', 'indeterminate', 'blocked', 'misconfigured', 'skipped', 'in_review'
);
CREATE TYPE charge_operation AS ENUM ('create', 'confirm');
CREATE TYPE generation_outcome AS ENUM (
  'created', 'charged', 'declined', 'blocked', 'misconfigured', 'absent'
);

-- The slot: one row for (namespace, customer, period), chargeable at most once. The primary key is
-- the guard that holds for ever, also after Temporal has forgotten the workflow.
CREATE TABLE billing_charges (
  namespace         text NOT NULL,
  period            text NOT NULL,
  customer_id       text NOT NULL,
  state             slot_state NOT NULL,
  generation        integer NOT NULL DEFAULT 1,
  -- key of the confirm of the current generation; null only when nothing was ever to be sent
  idempotency_key   text,
  payment_intent_id text,
  charge_id         text,
  -- why it is not charged: a decline code, a skip reason, an error type of docs/errors.md
  reason            text,
  advice            text,
  claimed_at        timestamptz NOT NULL DEFAULT now(),
  sent_at           timestamptz,
  settled_at        timestamptz,
  updated_at        timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT billing_charges_pkey PRIMARY KEY (namespace, period, customer_id),
  CONSTRAINT slot_belongs_to_an_item FOREIGN KEY (namespace, period, customer_id) REFERENCES billing_items,
  CONSTRAINT slot_key_is_unique UNIQUE (idempotency_key),
  CONSTRAINT payment_intent_serves_one_slot UNIQUE (payment_intent_id),
  CONSTRAINT charge_pays_one_slot UNIQUE (charge_id),
  CONSTRAINT charge_id_iff_charged CHECK ((charge_id IS NOT NULL) = (state = 'charged')),
  CONSTRAINT charged_has_payment_intent CHECK (state <> 'charged' OR payment_intent_id IS NOT NULL),
  CONSTRAINT unsettled_has_no_reason CHECK (state NOT IN ('claimed', 'sent', 'charged') OR reason IS NULL),
  CONSTRAINT not_charged_has_reason CHECK (state IN ('claimed', 'sent', 'charged') OR reason IS NOT NULL),
  CONSTRAINT key_unless_skipped CHECK (state = 'skipped' OR idempotency_key IS NOT NULL),
  CONSTRAINT generation_is_positive CHECK (generation >= 1)
);

-- Only the slots somebody still has to look at: settle rounds and status read these, and they are few.
CREATE INDEX slots_open ON billing_charges (namespace, period, customer_id)
  WHERE state IN ('claimed', 'sent', 'indeterminate', 'in_review');

-- One row per idempotency key, written before its first send and read back ever after: every attempt
-- sends these bytes under this API version, whatever has changed in customers meanwhile.
CREATE TABLE charge_generations (
  idempotency_key   text PRIMARY KEY,
  namespace         text NOT NULL,
  period            text NOT NULL,
  customer_id       text NOT NULL,
  operation         charge_operation NOT NULL,
  generation        integer NOT NULL,
  request_body      text NOT NULL,
  api_version       text NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT now(),
  first_sent_at     timestamptz,
  outcome           generation_outcome,
  reason            text,
  charge_id         text,
  stripe_request_id text,
  finished_at       timestamptz,
  CONSTRAINT generation_belongs_to_a_slot FOREIGN KEY (namespace, period, customer_id) REFERENCES billing_charges,
  CONSTRAINT one_key_per_generation UNIQUE (namespace, period, customer_id, operation, generation),
  CONSTRAINT idempotency_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 255),
  CONSTRAINT finished_iff_outcome CHECK ((finished_at IS NOT NULL) = (outcome IS NOT NULL)),
  CONSTRAINT created_is_of_create CHECK (outcome IS DISTINCT FROM 'created' OR operation = 'create'),
  CONSTRAINT charged_is_of_confirm CHECK (outcome IS DISTINCT FROM 'charged' OR operation = 'confirm')
);

-- One generation open at a time: a second key for a slot cannot exist while the first is undecided.
CREATE UNIQUE INDEX one_generation_open ON charge_generations (namespace, period, customer_id, operation)
  WHERE outcome IS NULL;
-- A slot is paid once, whichever generation did it.
CREATE UNIQUE INDEX one_generation_charged ON charge_generations (namespace, period, customer_id)
  WHERE outcome = 'charged';

-- The arrows of docs/state-machine.md. charged is absorbing; the generation rises by one, and only
-- where the generation before ended in a refusal or in proof that nothing happened.
CREATE FUNCTION check_slot_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state = 'charged' THEN
    RAISE EXCEPTION 'slot % % % is charged and never changes', OLD.namespace, OLD.period, OLD.customer_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'charged_is_absorbing';
  END IF;
  IF OLD.payment_intent_id IS NOT NULL AND NEW.payment_intent_id IS DISTINCT FROM OLD.payment_intent_id THEN
    RAISE EXCEPTION 'slot % % % keeps its PaymentIntent', OLD.namespace, OLD.period, OLD.customer_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'one_payment_intent_per_slot';
  END IF;
  IF NEW.generation <> OLD.generation AND NOT (
    NEW.generation = OLD.generation + 1 AND NEW.state = 'claimed'
    AND OLD.state IN ('declined', 'misconfigured', 'indeterminate', 'in_review')
    AND NEW.idempotency_key IS DISTINCT FROM OLD.idempotency_key
    AND NOT EXISTS (
      SELECT FROM charge_generations g
      WHERE g.namespace = OLD.namespace AND g.period = OLD.period AND g.customer_id = OLD.customer_id
        AND g.generation = OLD.generation AND g.outcome IS NULL AND g.first_sent_at IS NOT NULL)
  ) THEN
    RAISE EXCEPTION 'slot % % %: generation % to % from % is not allowed', OLD.namespace, OLD.period,
      OLD.customer_id, OLD.generation, NEW.generation, OLD.state
      USING ERRCODE = 'check_violation', CONSTRAINT = 'generation_rises_after_a_final_answer';
  END IF;
  IF NEW.state <> OLD.state AND NOT (
    (OLD.state = 'claimed' AND NEW.state IN ('sent', 'misconfigured', 'blocked', 'indeterminate'))
    OR (OLD.state = 'sent' AND NEW.state IN ('charged', 'declined', 'indeterminate', 'blocked', 'misconfigured'))
    OR (OLD.state = 'indeterminate' AND NEW.state IN ('charged', 'declined', 'misconfigured', 'blocked', 'claimed', 'sent', 'in_review'))
    OR (OLD.state = 'in_review' AND NEW.state IN ('charged', 'declined', 'claimed'))
    OR (OLD.state IN ('declined', 'misconfigured') AND NEW.state = 'claimed' AND NEW.generation = OLD.generation + 1)
    OR (OLD.state = 'blocked' AND NEW.state IN ('claimed', 'sent'))
    OR (OLD.state = 'skipped' AND NEW.state = 'claimed')
  ) THEN
    RAISE EXCEPTION 'slot % % %: % to % is not an arrow', OLD.namespace, OLD.period, OLD.customer_id,
      OLD.state, NEW.state
      USING ERRCODE = 'check_violation', CONSTRAINT = 'slot_moves_along_the_arrows';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER slot_transition BEFORE UPDATE ON billing_charges
  FOR EACH ROW EXECUTE FUNCTION check_slot_transition();
