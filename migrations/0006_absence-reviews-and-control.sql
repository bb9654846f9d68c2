-- What Stripe showed when it was asked about a key that had been sent and seemed to have done nothing.
-- Two consistent reads, a quiet time apart and a quiet time after the last send, are the proof that
-- nothing happened; one read never is. A look-up that failed leaves no row here.
CREATE TABLE absence_reads (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace       text NOT NULL,
  period          text NOT NULL,
  customer_id     text NOT NULL,
  generation      integer NOT NULL,
  idempotency_key text NOT NULL,
  -- no_payment_intent, or the status of the PaymentIntent that shows no trace of the confirm
  sees            text NOT NULL,
  read_at         timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT absence_is_of_a_generation FOREIGN KEY (idempotency_key) REFERENCES charge_generations,
  CONSTRAINT absence_says_what_was_seen CHECK (sees <> '')
);
CREATE INDEX absence_by_key ON absence_reads (idempotency_key, id);

-- What a person decided about a slot that Stripe could not answer for. With two-person rule the first
-- row is a proposal; the second, by somebody else and of the same verdict, decides.
CREATE TABLE slot_resolutions (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace   text NOT NULL,
  period      text NOT NULL,
  customer_id text NOT NULL,
  generation  integer NOT NULL,
  verdict     text NOT NULL,
  charge_id   text,
  evidence    text NOT NULL,
  operator    text NOT NULL,
  decides     boolean NOT NULL,
  at          timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT resolution_of_a_slot FOREIGN KEY (namespace, period, customer_id) REFERENCES billing_charges,
  CONSTRAINT resolution_verdict CHECK (verdict IN ('charged', 'absent')),
  CONSTRAINT charged_names_its_charge CHECK ((charge_id IS NOT NULL) = (verdict = 'charged')),
  CONSTRAINT resolution_says_who_and_why CHECK (operator <> '' AND evidence <> '')
);
CREATE INDEX resolutions_by_slot ON slot_resolutions (namespace, period, customer_id, id);
-- A generation is decided once.
CREATE UNIQUE INDEX one_decision_per_generation ON slot_resolutions (namespace, period, customer_id, generation)
  WHERE decides;

-- One row per pass of the hourly sweep, so that status can say when somebody last looked.
CREATE TABLE sweeps (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at       timestamptz NOT NULL DEFAULT now(),
  looked   integer NOT NULL,
  settled  integer NOT NULL,
  left_open integer NOT NULL,
  purged   integer NOT NULL
);

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON absence_reads
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON slot_resolutions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What the operator last ordered. Temporal holds the order that is obeyed; this is what status shows and
-- what the sweep asks before it lets a key be sent for a run that somebody paused or stopped.
ALTER TABLE billing_runs
  ADD COLUMN control text NOT NULL DEFAULT 'running',
  ADD COLUMN control_note text,
  ADD CONSTRAINT run_control CHECK (control IN ('running', 'paused', 'stopped'));
UPDATE billing_runs SET control = 'stopped' WHERE state = 'stopped';

-- When Stripe was last asked about a slot; the sweep asks less often the longer the answer stays away.
ALTER TABLE billing_charges ADD COLUMN looked_at timestamptz;

-- As in 0003, and: a success that Stripe shows is the truth whatever the slot says. A confirm that was
-- declined, refused or blocked can still be followed by one (somebody confirmed the intent by hand, or
-- a send of long ago arrived), and a slot that went on saying "declined" would be charged again.
CREATE OR REPLACE FUNCTION check_slot_transition() RETURNS trigger LANGUAGE plpgsql AS $$
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
    OR (OLD.state = 'in_review' AND NEW.state IN ('charged', 'declined', 'misconfigured', 'claimed'))
    OR (OLD.state IN ('declined', 'misconfigured') AND NEW.state = 'claimed' AND NEW.generation = OLD.generation + 1)
    OR (OLD.state IN ('declined', 'misconfigured', 'blocked') AND NEW.state = 'charged' AND NEW.generation = OLD.generation)
    OR (OLD.state = 'blocked' AND NEW.state IN ('claimed', 'sent'))
    OR (OLD.state = 'skipped' AND NEW.state = 'claimed')
  ) THEN
    RAISE EXCEPTION 'slot % % %: % to % is not an arrow', OLD.namespace, OLD.period, OLD.customer_id,
      OLD.state, NEW.state
      USING ERRCODE = 'check_violation', CONSTRAINT = 'slot_moves_along_the_arrows';
  END IF;
  RETURN NEW;
END $$;
