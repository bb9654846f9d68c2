CREATE TYPE refund_kind AS ENUM ('certain', 'likely');
CREATE TYPE refund_state AS ENUM ('planned', 'sent', 'refunded', 'indeterminate', 'skipped', 'failed');

-- What somebody found to have been charged twice, and what is to be given back. Nothing is sent before
-- the order (ordered_at); what was planned never changes, the lines only move along their states.
CREATE TABLE refund_plans (
  plan_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stripe_account text NOT NULL,
  live_mode      boolean NOT NULL,
  -- of the lines: the same findings planned again are the same plan, as long as nobody has ordered it
  fingerprint    text NOT NULL,
  planned_by     text NOT NULL,
  planned_at     timestamptz NOT NULL DEFAULT now(),
  ordered_by     text,
  order_reason   text,
  ordered_at     timestamptz,
  CONSTRAINT refund_plan_says_who CHECK (planned_by <> ''),
  CONSTRAINT refund_order_says_who_and_why CHECK (
    (ordered_at IS NULL AND ordered_by IS NULL AND order_reason IS NULL)
    OR (ordered_at IS NOT NULL AND ordered_by <> '' AND order_reason <> '' AND ordered_by IS NOT NULL AND order_reason IS NOT NULL))
);
CREATE UNIQUE INDEX one_waiting_plan_per_finding ON refund_plans (fingerprint) WHERE ordered_at IS NULL;

-- One charge to give back, under one key for ever: the bytes are stored here before they are first sent.
CREATE TABLE refund_plan_lines (
  plan_id               bigint NOT NULL,
  line                  integer NOT NULL,
  kind                  refund_kind NOT NULL,
  why                   text NOT NULL,
  -- the slot that is paid twice, where the charges name one
  namespace             text,
  period                text NOT NULL,
  customer_id           text,
  stripe_customer_id    text,
  charge_id             text NOT NULL,
  payment_intent_id     text,
  kept_charge_id        text NOT NULL,
  amount_minor          bigint NOT NULL,
  currency              text NOT NULL,
  -- what had been given back of the charge when the line was planned: another sum means that somebody was here
  refunded_before_minor bigint NOT NULL,
  idempotency_key       text NOT NULL,
  request_body          text NOT NULL,
  api_version           text NOT NULL,
  state                 refund_state NOT NULL DEFAULT 'planned',
  first_sent_at         timestamptz,
  refund_id             text,
  -- Stripe's own: succeeded, pending, requires_action
  refund_status         text,
  reason                text,
  finished_at           timestamptz,
  CONSTRAINT refund_plan_lines_pkey PRIMARY KEY (plan_id, line),
  CONSTRAINT line_belongs_to_a_plan FOREIGN KEY (plan_id) REFERENCES refund_plans,
  CONSTRAINT charge_stands_once_in_a_plan UNIQUE (plan_id, charge_id),
  CONSTRAINT refund_key_is_unique UNIQUE (idempotency_key),
  CONSTRAINT refund_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 255),
  CONSTRAINT refund_serves_one_line UNIQUE (refund_id),
  CONSTRAINT refund_amount_in_range CHECK (amount_minor > 0 AND amount_minor <= 99999999),
  CONSTRAINT refunded_before_not_negative CHECK (refunded_before_minor >= 0),
  CONSTRAINT kept_charge_is_another CHECK (charge_id <> kept_charge_id),
  CONSTRAINT refund_id_iff_refunded CHECK ((refund_id IS NOT NULL) = (state = 'refunded')),
  CONSTRAINT sent_before_it_ends CHECK (state IN ('planned', 'skipped') OR first_sent_at IS NOT NULL),
  CONSTRAINT unsent_lines_were_never_sent CHECK (state NOT IN ('planned', 'skipped') OR first_sent_at IS NULL),
  CONSTRAINT refund_finished_iff_over CHECK ((finished_at IS NOT NULL) = (state IN ('refunded', 'skipped', 'failed'))),
  CONSTRAINT not_refunded_has_reason CHECK (state IN ('planned', 'sent', 'refunded') OR reason IS NOT NULL)
);

-- Two plans may name a charge; only one of them can be giving it back.
CREATE UNIQUE INDEX one_refund_open_per_charge ON refund_plan_lines (charge_id)
  WHERE state IN ('sent', 'indeterminate');
CREATE INDEX refund_lines_by_charge ON refund_plan_lines (charge_id);

-- One row per physical send, committed before the bytes leave, and one per answer.
CREATE TABLE refund_attempts (
  attempt_id text PRIMARY KEY,
  plan_id    bigint NOT NULL,
  line       integer NOT NULL,
  worker     text NOT NULL,
  sent_at    timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT refund_attempt_has_a_line FOREIGN KEY (plan_id, line) REFERENCES refund_plan_lines
);
CREATE INDEX refund_attempts_by_line ON refund_attempts (plan_id, line);

CREATE TABLE refund_attempt_answers (
  attempt_id        text PRIMARY KEY,
  http_status       integer,
  error             text,
  stripe_request_id text,
  replayed          boolean NOT NULL DEFAULT false,
  duration_ms       integer NOT NULL,
  answered_at       timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT refund_answer_has_an_attempt FOREIGN KEY (attempt_id) REFERENCES refund_attempts,
  CONSTRAINT refund_answer_is_status_or_error CHECK (http_status IS NOT NULL OR error IS NOT NULL)
);

-- What must never be given back: the charge that a slot counts on, and the one that a plan keeps.
CREATE FUNCTION check_refund_target() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND NOT (OLD.first_sent_at IS NULL AND NEW.first_sent_at IS NOT NULL) THEN
    RETURN NEW;
  END IF;
  -- One at a time: two plans that each keep what the other gives back would not see each other.
  PERFORM pg_advisory_xact_lock(hashtext('chargeonce refund target'));
  IF EXISTS (SELECT FROM billing_charges s WHERE s.charge_id = NEW.charge_id)
    OR EXISTS (SELECT FROM billing_charges s WHERE s.payment_intent_id = NEW.payment_intent_id) THEN
    RAISE EXCEPTION 'charge % is the one that its slot counts on', NEW.charge_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'slot_charge_is_never_refunded';
  END IF;
  IF EXISTS (
    SELECT FROM refund_plan_lines l
    WHERE (l.charge_id = NEW.kept_charge_id AND (l.plan_id = NEW.plan_id OR l.state IN ('sent', 'indeterminate', 'refunded')))
      OR (l.kept_charge_id = NEW.charge_id AND l.plan_id = NEW.plan_id)) THEN
    RAISE EXCEPTION 'charge % cannot be given back and % kept: another line says the reverse', NEW.charge_id, NEW.kept_charge_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'kept_charge_stays';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER refund_target BEFORE INSERT OR UPDATE ON refund_plan_lines
  FOR EACH ROW EXECUTE FUNCTION check_refund_target();

-- What is sent under a refund's key is decided once, and a final state stays.
CREATE FUNCTION check_refund_line() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.plan_id, NEW.line, NEW.kind, NEW.charge_id, NEW.kept_charge_id, NEW.amount_minor, NEW.currency,
      NEW.refunded_before_minor, NEW.idempotency_key, NEW.request_body, NEW.api_version, NEW.payment_intent_id)
    IS DISTINCT FROM
     (OLD.plan_id, OLD.line, OLD.kind, OLD.charge_id, OLD.kept_charge_id, OLD.amount_minor, OLD.currency,
      OLD.refunded_before_minor, OLD.idempotency_key, OLD.request_body, OLD.api_version, OLD.payment_intent_id)
    OR (OLD.first_sent_at IS NOT NULL AND NEW.first_sent_at IS NULL) THEN
    RAISE EXCEPTION 'the refund under key % is frozen', OLD.idempotency_key
      USING ERRCODE = 'check_violation', CONSTRAINT = 'refund_is_frozen';
  END IF;
  IF NEW.state <> OLD.state AND NOT (
    (OLD.state = 'planned' AND NEW.state IN ('sent', 'skipped'))
    OR (OLD.state = 'sent' AND NEW.state IN ('refunded', 'indeterminate', 'failed'))
    OR (OLD.state = 'indeterminate' AND NEW.state IN ('refunded', 'sent', 'failed'))
  ) THEN
    RAISE EXCEPTION 'refund % of plan %: % to % is not an arrow', OLD.line, OLD.plan_id, OLD.state, NEW.state
      USING ERRCODE = 'check_violation', CONSTRAINT = 'refund_moves_along_the_arrows';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER refund_line BEFORE UPDATE ON refund_plan_lines
  FOR EACH ROW EXECUTE FUNCTION check_refund_line();

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON refund_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON refund_attempt_answers
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON refund_plans
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON refund_plan_lines
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
