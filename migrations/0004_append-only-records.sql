-- One row per physical send, committed before the bytes leave: what is not here was never sent.
CREATE TABLE charge_attempts (
  attempt_id      text PRIMARY KEY,
  idempotency_key text NOT NULL,
  activity_attempt integer NOT NULL,
  worker          text NOT NULL,
  sent_at         timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT attempt_has_a_generation FOREIGN KEY (idempotency_key) REFERENCES charge_generations
);
CREATE INDEX attempts_by_key ON charge_attempts (idempotency_key);

-- What came back for an attempt. No row: the answer was lost, or its process died waiting.
CREATE TABLE charge_attempt_answers (
  attempt_id        text PRIMARY KEY,
  -- null when no HTTP answer arrived; error then says what the socket said
  http_status       integer,
  error             text,
  stripe_request_id text,
  replayed          boolean NOT NULL DEFAULT false,
  duration_ms       integer NOT NULL,
  answered_at       timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT answer_has_an_attempt FOREIGN KEY (attempt_id) REFERENCES charge_attempts,
  CONSTRAINT answer_is_status_or_error CHECK (http_status IS NOT NULL OR error IS NOT NULL)
);

-- An operator's order, remembered for ever under its request id: Temporal forgets what it has seen
-- at continue-as-new and after retention, so the same order sent again is recognised here.
CREATE TABLE rerun_requests (
  request_id   text PRIMARY KEY,
  namespace    text NOT NULL,
  period       text NOT NULL,
  customer_id  text NOT NULL,
  operator     text NOT NULL,
  reason       text NOT NULL,
  answer       text NOT NULL,
  requested_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT rerun_says_who_and_why CHECK (operator <> '' AND reason <> '')
);

-- Who did what and why, money included: the sum of its slot.charged rows is the sum charged.
CREATE TABLE audit_log (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at           timestamptz NOT NULL DEFAULT now(),
  actor        text NOT NULL,
  action       text NOT NULL,
  namespace    text,
  period       text,
  customer_id  text,
  amount_minor bigint,
  currency     text,
  reason       text,
  details      jsonb NOT NULL DEFAULT '{}',
  CONSTRAINT audit_says_who_did_what CHECK (actor <> '' AND action <> ''),
  CONSTRAINT audit_money_has_currency CHECK ((amount_minor IS NULL) = (currency IS NULL))
);
CREATE INDEX audit_by_period ON audit_log (period, namespace, id);

-- One success per slot in the log too.
CREATE UNIQUE INDEX charged_is_logged_once ON audit_log (namespace, period, customer_id)
  WHERE action = 'slot.charged';

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP
    USING ERRCODE = 'restrict_violation', HINT = 'Write a new row that corrects the old one.';
END $$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_items
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_run_totals
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON charge_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON charge_attempt_answers
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rerun_requests
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- A slot is never given back by deleting its row.
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON billing_charges
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON charge_generations
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
