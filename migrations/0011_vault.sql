-- The vault: a proxy in front of Stripe that caps what a key can spend. The counts below are the cap; no
-- process keeps one of its own. What was asked, what was forwarded and what came of it is append-only.

CREATE TYPE cap_basis AS ENUM ('billing_period', 'day', 'total');

-- A key's secret is never here: only its SHA-256. key_id is the public part of the key.
CREATE TABLE vault_keys (
  key_id            text PRIMARY KEY,
  secret_hash       bytea NOT NULL,
  vendor            text NOT NULL DEFAULT 'stripe',
  account           text NOT NULL,
  livemode          boolean NOT NULL,
  cap_basis         cap_basis NOT NULL,
  -- of a run's own key both; of any other at most the period
  namespace         text,
  period            text,
  allowed_endpoints text[] NOT NULL,
  expires_at        timestamptz NOT NULL,
  -- a run's key sends only until then: for ever while the run goes on, a few minutes at a time after it
  open_until        timestamptz NOT NULL DEFAULT 'infinity',
  revoked_at        timestamptz,
  created_by        text NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT vault_key_of_known_vendor CHECK (vendor = 'stripe'),
  CONSTRAINT vault_secret_is_hashed CHECK (length(secret_hash) = 32),
  CONSTRAINT vault_key_allows_something CHECK (cardinality(allowed_endpoints) > 0),
  CONSTRAINT vault_key_of_a_period_names_it CHECK (cap_basis <> 'billing_period' OR period IS NOT NULL),
  CONSTRAINT vault_key_of_a_run_names_it CHECK (namespace IS NULL OR period IS NOT NULL)
);
-- A run has one key, whoever asks for it and however often.
CREATE UNIQUE INDEX one_vault_key_per_run ON vault_keys (namespace, period) WHERE namespace IS NOT NULL;

CREATE TABLE vault_caps (
  key_id         text NOT NULL REFERENCES vault_keys,
  currency       text NOT NULL,
  cap_minor      bigint NOT NULL,
  -- what the plan expects; above it something is wrong, cap or no cap
  expected_minor bigint,
  CONSTRAINT vault_caps_pkey PRIMARY KEY (key_id, currency),
  CONSTRAINT vault_cap_is_positive CHECK (cap_minor > 0 AND cap_minor <= 9007199254740991),
  CONSTRAINT vault_cap_currency_is_iso CHECK (currency ~ '^[a-z]{3}$')
);

-- What is used of a cap (reserved and spent together), in one row per window: '' or, for a cap per day, its
-- UTC date. The one hot row of the vault: every reservation is one conditional update of it. It knows its cap, so
-- that the row itself refuses what goes beyond; only a success that Stripe shows after the release may, and is
-- counted in beyond_minor.
CREATE TABLE vault_windows (
  key_id       text NOT NULL,
  currency     text NOT NULL,
  "window"     text NOT NULL,
  used_minor   bigint NOT NULL DEFAULT 0,
  cap_minor    bigint NOT NULL,
  beyond_minor bigint NOT NULL DEFAULT 0,
  CONSTRAINT vault_windows_pkey PRIMARY KEY (key_id, currency, "window"),
  CONSTRAINT vault_window_has_a_cap FOREIGN KEY (key_id, currency) REFERENCES vault_caps,
  CONSTRAINT vault_used_is_not_negative CHECK (used_minor >= 0 AND beyond_minor >= 0),
  CONSTRAINT vault_cap_holds CHECK (used_minor - beyond_minor <= cap_minor)
) WITH (fillfactor = 10);

CREATE TYPE reservation_state AS ENUM ('held', 'spent', 'released');

-- One sum set aside for one PaymentIntent (or charge), from its create to its end. spent is absorbing.
CREATE TABLE vault_reservations (
  reservation_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key_id          text NOT NULL,
  currency        text NOT NULL,
  "window"        text NOT NULL,
  amount_minor    bigint NOT NULL,
  state           reservation_state NOT NULL DEFAULT 'held',
  -- what Stripe showed last, or why nothing is known
  reason          text NOT NULL DEFAULT 'in_flight',
  -- idempotency key of the create
  create_key      text NOT NULL,
  -- pi_… or ch_…; null until a reply or a look named it
  object_id       text,
  stripe_customer text,
  -- SHA-256 of the create's metadata: by it an intent is known whose reply was lost
  marks           bytea NOT NULL,
  namespace       text,
  period          text,
  customer_id     text,
  -- when its create was first let out: no intent of its can be older
  reserved_at     timestamptz NOT NULL DEFAULT now(),
  last_forward_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- how many requests about it were let out: a look proves nothing about one that left after the look began
  forwards        integer NOT NULL DEFAULT 1,
  settled_at      timestamptz,
  next_look_at    timestamptz,
  looks           integer NOT NULL DEFAULT 0,
  -- since when looks have shown no effect, without a break
  absent_since    timestamptz,
  -- No foreign key to its window: each insert would lock the one hot row once more. The drift check compares them.
  CONSTRAINT reservation_has_a_cap FOREIGN KEY (key_id, currency) REFERENCES vault_caps,
  CONSTRAINT reservation_is_of_one_create UNIQUE (key_id, create_key),
  -- The object first: it is looked for under one key, and by the sweep under all.
  CONSTRAINT reservation_is_of_one_object UNIQUE (object_id, key_id),
  CONSTRAINT reservation_amount_is_positive CHECK (amount_minor > 0)
) WITH (fillfactor = 60); -- room for the updates that touch no index
CREATE INDEX reservations_to_look_at ON vault_reservations (next_look_at) WHERE state = 'held';
-- What is reserved of a cap: few rows, however many are spent.
CREATE INDEX reservations_held ON vault_reservations (key_id, currency, "window") WHERE state = 'held';
CREATE INDEX reservations_without_object ON vault_reservations (key_id, stripe_customer) WHERE object_id IS NULL;

-- One idempotency key as it came first: the same key with other bytes is refused here already.
CREATE TABLE vault_sends (
  key_id             text NOT NULL REFERENCES vault_keys,
  idempotency_key    text NOT NULL,
  -- SHA-256 of method, path and body, length-framed
  request_hash       bytea NOT NULL,
  reservation_id     bigint REFERENCES vault_reservations,
  first_forwarded_at timestamptz,
  forwards           integer NOT NULL DEFAULT 0,
  -- forwards of which nobody knows what became
  unresolved         integer NOT NULL DEFAULT 0,
  CONSTRAINT vault_sends_pkey PRIMARY KEY (key_id, idempotency_key),
  CONSTRAINT send_unresolved_in_range CHECK (unresolved BETWEEN 0 AND forwards)
) WITH (fillfactor = 60);
CREATE INDEX sends_by_reservation ON vault_sends (reservation_id) WHERE reservation_id IS NOT NULL;

-- The audit: one row per request, committed before anything is forwarded, and one per answer. No bodies.
CREATE TABLE vault_requests (
  request_id      uuid PRIMARY KEY,
  key_id          text NOT NULL REFERENCES vault_keys,
  idempotency_key text,
  -- X-Attempt-Id of the client
  attempt_id      text,
  method          text NOT NULL,
  path            text NOT NULL,
  -- 'forward', or the code of the refusal
  decision        text NOT NULL,
  amount_minor    bigint,
  currency        text,
  reservation_id  bigint,
  namespace       text,
  period          text,
  customer_id     text,
  at              timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT vault_request_money_has_currency CHECK ((amount_minor IS NULL) = (currency IS NULL))
);
CREATE INDEX vault_requests_by_key ON vault_requests (key_id, at);
CREATE INDEX vault_requests_by_idempotency_key ON vault_requests (idempotency_key, at);
CREATE INDEX vault_requests_by_customer ON vault_requests (customer_id, period, at) WHERE customer_id IS NOT NULL;

CREATE TABLE vault_answers (
  request_id        uuid PRIMARY KEY REFERENCES vault_requests,
  -- null when no HTTP answer came; error then says what the socket said
  status            integer,
  error             text,
  stripe_request_id text,
  replayed          boolean NOT NULL DEFAULT false,
  -- spent, released, held: what it meant for the reservation; none when there is none
  effect            text NOT NULL,
  duration_ms       integer NOT NULL,
  at                timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT vault_answer_is_status_or_error CHECK (status IS NOT NULL OR error IS NOT NULL)
);

-- Every movement of a cap: used = reserved - released, spent = settled. The drift check adds it up.
CREATE TABLE vault_ledger (
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key_id         text NOT NULL,
  currency       text NOT NULL,
  "window"       text NOT NULL,
  reservation_id bigint NOT NULL REFERENCES vault_reservations,
  entry          text NOT NULL,
  amount_minor   bigint NOT NULL,
  cause          text NOT NULL,
  at             timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT vault_entry_is_known CHECK (entry IN ('reserve', 'settle', 'release')),
  CONSTRAINT vault_entry_amount_is_positive CHECK (amount_minor > 0)
);
-- A reservation is spent once.
CREATE UNIQUE INDEX settled_once ON vault_ledger (reservation_id) WHERE entry = 'settle';

-- Who made, raised, rotated, opened, closed or revoked a key, and why.
CREATE TABLE vault_key_changes (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key_id   text NOT NULL REFERENCES vault_keys,
  at       timestamptz NOT NULL DEFAULT now(),
  actor    text NOT NULL,
  action   text NOT NULL,
  reason   text,
  details  jsonb NOT NULL DEFAULT '{}',
  CONSTRAINT vault_change_says_who_and_what CHECK (actor <> '' AND action <> '')
);
CREATE INDEX vault_changes_by_key ON vault_key_changes (key_id, id);

-- One row per thing worth waking somebody for, however many processes notice it; delivered until acknowledged.
CREATE TABLE vault_alerts (
  alert_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  once_key     text NOT NULL CONSTRAINT alert_is_raised_once UNIQUE,
  kind         text NOT NULL,
  key_id       text REFERENCES vault_keys,
  details      jsonb NOT NULL,
  at           timestamptz NOT NULL DEFAULT now(),
  next_try_at  timestamptz NOT NULL DEFAULT now(),
  tries        integer NOT NULL DEFAULT 0,
  webhook_at   timestamptz,
  slack_at     timestamptz,
  done_at      timestamptz
);
CREATE INDEX alerts_to_deliver ON vault_alerts (next_try_at) WHERE done_at IS NULL;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON vault_requests
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON vault_answers
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON vault_ledger
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON vault_key_changes
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON vault_caps
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON vault_windows
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON vault_keys
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON vault_reservations
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON vault_sends
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A sum that Stripe took stays spent, whatever somebody believes later.
CREATE FUNCTION check_reservation_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state = 'spent' AND NEW.state <> 'spent' THEN
    RAISE EXCEPTION 'reservation % is spent and never changes', OLD.reservation_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'spent_is_absorbing';
  END IF;
  -- Only what was given back may be set aside again in another window.
  IF (NEW.key_id, NEW.create_key, NEW.amount_minor, NEW.currency, NEW.marks, NEW.reserved_at)
      IS DISTINCT FROM (OLD.key_id, OLD.create_key, OLD.amount_minor, OLD.currency, OLD.marks, OLD.reserved_at)
    OR (OLD.object_id IS NOT NULL AND NEW.object_id IS DISTINCT FROM OLD.object_id)
    OR (OLD.state <> 'released' AND NEW."window" <> OLD."window") THEN
    RAISE EXCEPTION 'reservation % keeps its sum, its window and its object', OLD.reservation_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'reservation_keeps_its_sum';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER reservation_transition BEFORE UPDATE ON vault_reservations
  FOR EACH ROW EXECUTE FUNCTION check_reservation_transition();

-- Below a lowered cap there may be sums that are spent already, so a cap only rises; nobody rewrites what was expected.
CREATE FUNCTION check_cap_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.cap_minor < OLD.cap_minor OR NEW.expected_minor IS DISTINCT FROM OLD.expected_minor THEN
    RAISE EXCEPTION 'the cap of % only rises', OLD.key_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'vault_cap_only_rises';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER cap_change BEFORE UPDATE ON vault_caps
  FOR EACH ROW EXECUTE FUNCTION check_cap_change();

-- A key is of one account, mode and run for ever, expires no earlier than it was said to, and stays revoked.
CREATE FUNCTION check_vault_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.key_id, NEW.account, NEW.livemode, NEW.cap_basis, NEW.namespace, NEW.period)
      IS DISTINCT FROM (OLD.key_id, OLD.account, OLD.livemode, OLD.cap_basis, OLD.namespace, OLD.period)
    OR NEW.expires_at < OLD.expires_at
    OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at) THEN
    RAISE EXCEPTION 'vault key % keeps what it is for', OLD.key_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'vault_key_keeps_its_purpose';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER vault_key_change BEFORE UPDATE ON vault_keys
  FOR EACH ROW EXECUTE FUNCTION check_vault_key_change();

-- Sets a sum aside in the books: a new reservation, or one that was given back before. Whoever
-- calls it takes the sum out of the window.
CREATE FUNCTION vault_set_aside(r vault_reservations, p_cause text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  id bigint := r.reservation_id;
BEGIN
  IF id IS NULL THEN
    INSERT INTO vault_reservations (key_id, currency, "window", amount_minor, create_key, stripe_customer,
      marks, namespace, period, customer_id, next_look_at)
    VALUES (r.key_id, r.currency, r."window", r.amount_minor, r.create_key, r.stripe_customer,
      r.marks, r.namespace, r.period, r.customer_id, now() + interval '2 minutes')
    RETURNING reservation_id INTO id;
  ELSE
    UPDATE vault_reservations SET state = 'held', "window" = r."window", reason = 'in_flight', settled_at = NULL,
      looks = 0
    WHERE reservation_id = id;
  END IF;
  INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
  VALUES (r.key_id, r.currency, r."window", id, 'reserve', r.amount_minor, p_cause);
  RETURN id;
END $$;

-- Everything that is decided before a request may leave, and its audit row, in one commit. Locks in the order
-- send, reservation, window. The window is the last statement, since every other reservation of the key waits for it
-- until this commit: what was written before it is taken back when it has no room.
-- p_kind: read, plain (no money), create, confirm, cancel, capture.
CREATE FUNCTION vault_begin(
  p_request uuid, p_key text, p_account text, p_livemode boolean, p_kind text,
  p_method text, p_path text, p_idempotency_key text, p_attempt text, p_hash bytea,
  p_amount bigint, p_currency text, p_object text, p_stripe_customer text, p_marks bytea,
  p_namespace text, p_period text, p_customer text,
  OUT decision text, OUT reservation bigint, OUT amount bigint, OUT currency text,
  OUT used bigint, OUT cap bigint, OUT expected bigint)
LANGUAGE plpgsql AS $$
DECLARE
  k vault_keys%ROWTYPE;
  send vault_sends%ROWTYPE;
  r vault_reservations%ROWTYPE;
  twin vault_reservations%ROWTYPE;
  wanted boolean := false;
BEGIN
  SELECT * INTO k FROM vault_keys WHERE key_id = p_key;
  IF NOT FOUND THEN
    decision := 'vault_key_unknown';
    RETURN;
  END IF;
  decision := CASE
    WHEN k.account <> p_account OR k.livemode <> p_livemode THEN 'vault_key_of_another_account'
    WHEN k.revoked_at IS NOT NULL THEN 'vault_key_revoked'
    WHEN k.expires_at <= now() THEN 'vault_key_expired'
    WHEN p_kind <> 'read' AND k.open_until <= now() THEN 'vault_key_closed'
    WHEN p_kind = 'create' AND k.namespace IS NOT NULL
      AND (p_namespace IS DISTINCT FROM k.namespace OR p_period IS DISTINCT FROM k.period) THEN 'period_mismatch'
    WHEN p_kind = 'create' AND k.period IS NOT NULL AND p_period <> k.period THEN 'period_mismatch'
    ELSE 'forward' END;

  IF decision = 'forward' AND p_kind <> 'read' AND p_idempotency_key IS NOT NULL THEN
    INSERT INTO vault_sends (key_id, idempotency_key, request_hash)
    VALUES (p_key, p_idempotency_key, p_hash) ON CONFLICT DO NOTHING;
    SELECT * INTO send FROM vault_sends s
    WHERE s.key_id = p_key AND s.idempotency_key = p_idempotency_key FOR UPDATE;
    IF send.request_hash <> p_hash THEN
      decision := 'idempotency_key_reused';
    ELSIF send.first_forwarded_at < now() - interval '23 hours' THEN
      decision := 'idempotency_key_too_old';
    END IF;
  END IF;

  IF decision = 'forward' AND p_kind = 'read' AND p_object IS NOT NULL THEN
    -- Nothing is locked for it: its answer may settle, the read itself changes nothing.
    SELECT v.reservation_id INTO reservation FROM vault_reservations v
    WHERE v.key_id = p_key AND v.object_id = p_object;
  END IF;
  IF decision = 'forward' AND p_kind IN ('create', 'confirm', 'capture', 'cancel') THEN
    IF p_kind = 'create' THEN
      SELECT * INTO r FROM vault_reservations v WHERE v.reservation_id = send.reservation_id FOR UPDATE;
      -- Nobody knows what became of this key, and the object that a look gave to its reservation may be that of a create
      -- alike, whose own sum then went back. What this key may still make is a second object, which takes that sum.
      IF r.object_id IS NOT NULL AND r.state <> 'released' AND send.unresolved > 0 THEN
        SELECT * INTO twin FROM vault_reservations v
        WHERE v.key_id = p_key AND v.object_id IS NULL AND v.state = 'released' AND v.absent_since IS NOT NULL
          AND v.amount_minor = r.amount_minor AND v.currency = r.currency
          AND v.stripe_customer IS NOT DISTINCT FROM r.stripe_customer AND v.marks = r.marks
        ORDER BY v.reservation_id LIMIT 1 FOR UPDATE;
        IF FOUND THEN r := twin; END IF;
      END IF;
    ELSE
      SELECT * INTO r FROM vault_reservations v
      WHERE v.key_id = p_key AND v.object_id = p_object FOR UPDATE;
    END IF;
    reservation := r.reservation_id;
    amount := coalesce(r.amount_minor, p_amount);
    currency := coalesce(r.currency, p_currency);
    IF reservation IS NULL AND p_kind <> 'create' THEN
      decision := 'unknown_payment_intent';
    ELSIF p_kind = 'capture' AND p_amount > r.amount_minor THEN
      decision := 'capture_above_reservation';
    END IF;
    wanted := decision = 'forward' AND p_kind <> 'cancel' AND (reservation IS NULL OR r.state = 'released');
  END IF;

  IF wanted THEN
    r."window" := CASE k.cap_basis WHEN 'day' THEN to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') ELSE '' END;
    SELECT b.used, b.cap, b.expected INTO used, cap, expected
    FROM vault_budget(p_key, vault_begin.currency, r."window") AS b;
    -- What is full at a glance is refused without waiting for the row; what looks free is decided below.
    IF cap IS NULL THEN
      decision := 'currency_not_capped';
    ELSIF used + amount > cap THEN
      decision := 'spend_cap_exceeded';
    END IF;
    wanted := decision = 'forward';
  END IF;
  IF wanted AND reservation IS NULL THEN
    r.key_id := p_key;
    r.currency := currency;
    r.amount_minor := amount;
    r.create_key := p_idempotency_key;
    r.stripe_customer := p_stripe_customer;
    r.marks := p_marks;
    r.namespace := p_namespace;
    r.period := p_period;
    r.customer_id := p_customer;
  END IF;

  -- At most twice: the second pass only writes down that there was no room.
  LOOP
    BEGIN
      IF decision = 'forward' AND r.reservation_id IS NOT NULL THEN
        UPDATE vault_reservations v SET forwards = v.forwards + 1, last_forward_at = clock_timestamp(),
          absent_since = NULL,
          -- Left alone while it is to come: an index has it.
          next_look_at = CASE WHEN v.next_look_at > now() THEN v.next_look_at ELSE now() + interval '2 minutes' END
        WHERE v.reservation_id = r.reservation_id AND v.state <> 'spent';
      END IF;
      IF wanted THEN reservation := vault_set_aside(r, p_request::text); END IF;
      IF decision = 'forward' AND send.key_id IS NOT NULL THEN
        UPDATE vault_sends s SET first_forwarded_at = coalesce(s.first_forwarded_at, now()),
          forwards = s.forwards + 1, unresolved = s.unresolved + 1,
          reservation_id = CASE WHEN wanted THEN reservation ELSE coalesce(s.reservation_id, reservation) END
        WHERE s.key_id = p_key AND s.idempotency_key = p_idempotency_key;
      END IF;
      INSERT INTO vault_requests (request_id, key_id, idempotency_key, attempt_id, method, path, decision,
        amount_minor, currency, reservation_id, namespace, period, customer_id)
      VALUES (p_request, p_key, p_idempotency_key, p_attempt, p_method, p_path, decision,
        amount, vault_begin.currency, reservation, coalesce(r.namespace, p_namespace),
        coalesce(r.period, p_period), coalesce(r.customer_id, p_customer));
      IF wanted THEN
        -- Whether there is room is decided here: the row count is the decision, whatever was read before.
        UPDATE vault_windows w SET used_minor = w.used_minor + amount
        WHERE w.key_id = p_key AND w.currency = vault_begin.currency AND w."window" = r."window"
          AND w.used_minor + amount <= w.cap_minor
        RETURNING w.used_minor INTO used;
        IF NOT FOUND THEN RAISE EXCEPTION 'no room' USING ERRCODE = 'V0402'; END IF;
      END IF;
      RETURN;
    EXCEPTION WHEN SQLSTATE 'V0402' THEN
      decision := 'spend_cap_exceeded';
      wanted := false;
      reservation := r.reservation_id;
      SELECT v.used_minor, v.cap_minor INTO used, cap FROM vault_windows v
      WHERE v.key_id = p_key AND v.currency = vault_begin.currency AND v."window" = r."window";
    END;
  END LOOP;
END $$;

-- What a window holds; makes it when it is the first of its day. Null when the key has no cap in that currency.
CREATE FUNCTION vault_budget(
  p_key text, p_currency text, p_window text, OUT used bigint, OUT cap bigint, OUT expected bigint)
LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..2 LOOP
    SELECT w.used_minor, w.cap_minor, c.expected_minor INTO used, cap, expected
    FROM vault_windows w JOIN vault_caps c USING (key_id, currency)
    WHERE w.key_id = p_key AND w.currency = p_currency AND w."window" = p_window;
    IF FOUND OR i = 2 THEN RETURN; END IF;
    -- FOR SHARE: a raise that is under way is waited for, and one that comes later finds this window.
    INSERT INTO vault_windows (key_id, currency, "window", cap_minor)
    SELECT c.key_id, c.currency, p_window, c.cap_minor FROM vault_caps c
    WHERE c.key_id = p_key AND c.currency = p_currency FOR SHARE
    ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

-- Raises a cap and all its windows, never lowers one. What the cap was before; null when there is none.
CREATE FUNCTION vault_raise(p_key text, p_currency text, p_cap bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  before bigint;
BEGIN
  SELECT cap_minor INTO before FROM vault_caps WHERE key_id = p_key AND currency = p_currency FOR NO KEY UPDATE;
  IF before < p_cap THEN
    UPDATE vault_caps SET cap_minor = p_cap WHERE key_id = p_key AND currency = p_currency;
    UPDATE vault_windows SET cap_minor = p_cap WHERE key_id = p_key AND currency = p_currency;
  END IF;
  RETURN before;
END $$;

-- Moves a reservation where Stripe's word leads, and says what was done. A success is the truth, also after a
-- release, and also above the cap; a sum is given back once; spent stays spent.
CREATE FUNCTION vault_move(p_reservation bigint, p_to text, p_reason text, p_cause text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r vault_reservations%ROWTYPE;
BEGIN
  SELECT * INTO r FROM vault_reservations WHERE reservation_id = p_reservation FOR UPDATE;
  -- Nothing follows spent; and where nothing is set aside, there is nothing to give back or to hold.
  IF r.state = 'spent' OR (r.state = 'released' AND p_to <> 'spent') THEN RETURN r.state::text; END IF;
  UPDATE vault_reservations SET
    state = p_to::reservation_state,
    reason = p_reason,
    settled_at = CASE WHEN p_to = 'held' THEN NULL ELSE now() END
  WHERE reservation_id = p_reservation;
  IF p_to = 'spent' THEN
    INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
    VALUES (r.key_id, r.currency, r."window", p_reservation, 'settle', r.amount_minor, p_cause);
  END IF;
  IF p_to = 'released' THEN
    INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
    VALUES (r.key_id, r.currency, r."window", p_reservation, 'release', r.amount_minor, p_cause);
    UPDATE vault_windows SET used_minor = used_minor - r.amount_minor
    WHERE key_id = r.key_id AND currency = r.currency AND "window" = r."window";
  ELSIF r.state = 'released' THEN
    INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
    VALUES (r.key_id, r.currency, r."window", p_reservation, 'reserve', r.amount_minor, p_cause);
    UPDATE vault_windows SET used_minor = used_minor + r.amount_minor,
      beyond_minor = greatest(beyond_minor, used_minor + r.amount_minor - cap_minor)
    WHERE key_id = r.key_id AND currency = r.currency AND "window" = r."window";
  END IF;
  RETURN p_to;
END $$;

-- Gives an intent to the create of this key that can have made it: same sum, currency, customer and metadata, let out
-- before it came to be. Creates that agree in all of that are interchangeable; one that still holds its sum goes first.
-- The reservation, or null when there is none. Twice, or by two at once: one reservation.
CREATE FUNCTION vault_bind(
  p_key text, p_object text, p_amount bigint, p_currency text, p_customer text, p_marks bytea, p_before timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  id bigint;
BEGIN
  SELECT reservation_id INTO id FROM vault_reservations WHERE key_id = p_key AND object_id = p_object;
  IF FOUND THEN RETURN id; END IF;
  UPDATE vault_reservations SET object_id = p_object WHERE reservation_id = (
    SELECT reservation_id FROM vault_reservations
    WHERE key_id = p_key AND object_id IS NULL AND amount_minor = p_amount AND currency = p_currency
      AND stripe_customer IS NOT DISTINCT FROM p_customer AND marks = p_marks AND reserved_at <= p_before
    ORDER BY state = 'released', reservation_id LIMIT 1 FOR UPDATE)
  RETURNING reservation_id INTO id;
  RETURN id;
EXCEPTION WHEN unique_violation THEN
  -- Somebody else has just given it away.
  SELECT reservation_id INTO id FROM vault_reservations WHERE key_id = p_key AND object_id = p_object;
  RETURN id;
END $$;

-- Whose reservation an answer is about: the one that has the object it names, or gets it now. That is another one than
-- its request's when a look has given the object to a create that is interchangeable with it: then the money of one
-- object must not be counted in both.
CREATE FUNCTION vault_owner(p_key text, p_reservation bigint, p_object text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  id bigint;
  r vault_reservations%ROWTYPE;
BEGIN
  IF p_object IS NULL THEN RETURN p_reservation; END IF;
  SELECT reservation_id INTO id FROM vault_reservations WHERE key_id = p_key AND object_id = p_object;
  IF id IS NOT NULL OR p_reservation IS NULL THEN RETURN id; END IF;
  BEGIN
    UPDATE vault_reservations SET object_id = p_object
    WHERE reservation_id = p_reservation AND object_id IS NULL;
    IF FOUND THEN RETURN p_reservation; END IF;
  EXCEPTION WHEN unique_violation THEN
    SELECT reservation_id INTO STRICT id FROM vault_reservations WHERE key_id = p_key AND object_id = p_object;
    RETURN id;
  END;
  SELECT * INTO STRICT r FROM vault_reservations WHERE reservation_id = p_reservation;
  id := vault_bind(p_key, p_object, r.amount_minor, r.currency, r.stripe_customer, r.marks, now());
  -- Nobody can have it: better counted here than nowhere.
  RETURN coalesce(id, p_reservation);
END $$;

-- What came of a forwarded request, in one commit. p_resolves: nothing (this send may yet have taken effect),
-- this send, or the whole key (its saved answer has come). A release waits until no send of the reservation is open.
-- It waits for its flush like any commit. A crash could only lose settlements that a look finds again, but without the
-- wait the payments per second of 20 connections did not rise beyond what two runs alike differ by (a flush takes 0.3 ms
-- there), and the log would miss answers.
CREATE FUNCTION vault_finish(
  p_request uuid, p_status integer, p_error text, p_stripe_request text, p_replayed boolean,
  p_duration integer, p_resolves text, p_to text, p_reason text, p_object text,
  OUT effect text)
LANGUAGE plpgsql AS $$
DECLARE
  q vault_requests%ROWTYPE;
  id bigint;
  to_state text := p_to;
BEGIN
  -- Not waited for on the disk: a crash of the server that loses it leaves the hold, and a look makes it good. The client
  -- waits for this commit, so it is worth as much as the other one. vault_begin's is never lost.
  PERFORM set_config('synchronous_commit', 'off', true);
  -- An answer counts once, also when two bring it at once: the second one waits, and reads what the first one did.
  PERFORM pg_advisory_xact_lock(hashtextextended(p_request::text, 0));
  SELECT a.effect INTO effect FROM vault_answers a WHERE a.request_id = p_request;
  IF FOUND THEN RETURN; END IF;
  SELECT * INTO STRICT q FROM vault_requests WHERE request_id = p_request;
  IF q.idempotency_key IS NOT NULL AND q.method <> 'GET' AND p_resolves <> 'nothing' THEN
    UPDATE vault_sends s SET unresolved = CASE p_resolves
      WHEN 'key' THEN 0 ELSE greatest(s.unresolved - 1, 0) END
    WHERE s.key_id = q.key_id AND s.idempotency_key = q.idempotency_key;
  END IF;
  id := vault_owner(q.key_id, q.reservation_id, p_object);
  IF p_resolves = 'key' AND p_object IS NOT NULL AND id <> q.reservation_id THEN
    -- Now it is known what this key made: sent again it needs no other sum.
    UPDATE vault_sends s SET reservation_id = id
    WHERE s.key_id = q.key_id AND s.idempotency_key = q.idempotency_key;
  END IF;
  effect := 'none';
  IF id IS NOT NULL THEN
    SELECT r.state::text INTO effect FROM vault_reservations r WHERE r.reservation_id = id FOR UPDATE;
    IF to_state = 'released' AND EXISTS (
      SELECT FROM vault_sends s WHERE s.reservation_id = id AND s.unresolved > 0) THEN
      to_state := 'held';
    END IF;
    -- What a read does not prove is no news.
    IF q.method <> 'GET' OR to_state <> 'held' THEN
      effect := vault_move(id, to_state, p_reason, p_request::text);
    END IF;
  END IF;
  INSERT INTO vault_answers (request_id, status, error, stripe_request_id, replayed, effect, duration_ms)
  VALUES (p_request, p_status, p_error, p_stripe_request, p_replayed, effect, p_duration);
END $$;

-- What a look at Stripe says about a held reservation. p_forwards: how many requests about it were out when the look
-- began, since a look proves nothing about one that left after it. p_to is spent, held, released (nothing can follow
-- any more) or absent: no effect seen, which releases when looks a quiet time apart, and after the last send, agree.
-- Locks in the order of vault_begin: sends, reservation, window.
CREATE FUNCTION vault_look(
  p_reservation bigint, p_forwards integer, p_to text, p_reason text, p_quiet interval, OUT effect text)
LANGUAGE plpgsql AS $$
DECLARE
  r vault_reservations%ROWTYPE;
  to_state text := p_to;
  since timestamptz;
BEGIN
  PERFORM FROM vault_sends WHERE reservation_id = p_reservation ORDER BY idempotency_key FOR UPDATE;
  SELECT * INTO STRICT r FROM vault_reservations WHERE reservation_id = p_reservation FOR UPDATE;
  IF p_to IN ('released', 'absent') AND r.forwards <> p_forwards THEN
    to_state := 'held';
  ELSIF p_to = 'absent' THEN
    to_state := CASE WHEN r.absent_since <= now() - p_quiet AND r.absent_since >= r.last_forward_at + p_quiet
      THEN 'released' ELSE 'held' END;
    IF now() >= r.last_forward_at + p_quiet THEN since := coalesce(r.absent_since, now()); END IF;
  END IF;
  effect := vault_move(p_reservation, to_state, p_reason, 'look');
  UPDATE vault_reservations SET
    looks = looks + 1,
    absent_since = since,
    next_look_at = CASE
      WHEN state <> 'held' THEN NULL
      -- The look that decides, not earlier and not much later.
      WHEN p_to = 'absent' AND to_state = 'held' AND forwards = p_forwards
        THEN coalesce(since, last_forward_at) + p_quiet
      ELSE now() + least(interval '1 hour', interval '30 seconds' * power(2, least(looks, 10))) END
  WHERE reservation_id = p_reservation;
  -- No send of it is out that the look has not counted, so these are all.
  IF to_state = 'released' AND effect = 'released' THEN
    UPDATE vault_sends SET unresolved = 0 WHERE reservation_id = p_reservation AND unresolved > 0;
  END IF;
END $$;
