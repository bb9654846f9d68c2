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
-- UTC date. The one hot row of the vault: every reservation is one conditional update of it.
CREATE TABLE vault_windows (
  key_id     text NOT NULL,
  currency   text NOT NULL,
  "window"   text NOT NULL,
  used_minor bigint NOT NULL DEFAULT 0,
  CONSTRAINT vault_windows_pkey PRIMARY KEY (key_id, currency, "window"),
  CONSTRAINT vault_window_has_a_cap FOREIGN KEY (key_id, currency) REFERENCES vault_caps,
  CONSTRAINT vault_used_is_not_negative CHECK (used_minor >= 0)
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
  reserved_at     timestamptz NOT NULL DEFAULT now(),
  last_forward_at timestamptz NOT NULL DEFAULT now(),
  settled_at      timestamptz,
  next_look_at    timestamptz,
  looks           integer NOT NULL DEFAULT 0,
  -- since when looks have shown no effect, without a break
  absent_since    timestamptz,
  CONSTRAINT reservation_has_a_window FOREIGN KEY (key_id, currency, "window") REFERENCES vault_windows,
  CONSTRAINT reservation_is_of_one_create UNIQUE (key_id, create_key),
  CONSTRAINT reservation_is_of_one_object UNIQUE (key_id, object_id),
  CONSTRAINT reservation_amount_is_positive CHECK (amount_minor > 0)
);
CREATE INDEX reservations_to_look_at ON vault_reservations (next_look_at) WHERE state = 'held';
CREATE INDEX reservations_by_object ON vault_reservations (object_id) WHERE object_id IS NOT NULL;
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
);
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
CREATE INDEX vault_ledger_by_window ON vault_ledger (key_id, currency, "window");
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
  IF NEW.amount_minor <> OLD.amount_minor OR NEW.currency <> OLD.currency
    OR (OLD.object_id IS NOT NULL AND NEW.object_id IS DISTINCT FROM OLD.object_id) THEN
    RAISE EXCEPTION 'reservation % keeps its sum and its object', OLD.reservation_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'reservation_keeps_its_sum';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER reservation_transition BEFORE UPDATE ON vault_reservations
  FOR EACH ROW EXECUTE FUNCTION check_reservation_transition();

-- Takes a sum out of the cap's window, in the one statement that decides: false when there is no room. The row
-- count is the decision; nobody reads a total first.
CREATE FUNCTION vault_take(p_key text, p_currency text, p_window text, p_amount bigint, OUT taken boolean, OUT used bigint)
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE vault_windows w SET used_minor = w.used_minor + p_amount
  WHERE w.key_id = p_key AND w.currency = p_currency AND w."window" = p_window
    AND w.used_minor + p_amount <= (
      SELECT c.cap_minor FROM vault_caps c WHERE c.key_id = p_key AND c.currency = p_currency)
  RETURNING w.used_minor INTO used;
  taken := FOUND;
END $$;

-- Everything that is decided before a request may leave, and its audit row, in one commit. Locks in the order
-- send, reservation, window; the window last, since every other reservation of the key waits for it.
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
  has_reservation boolean := false;
  wanted boolean := false;
  w text;
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

  IF decision = 'forward' AND p_kind IN ('create', 'confirm', 'capture', 'cancel') THEN
    IF p_kind = 'create' THEN
      SELECT * INTO r FROM vault_reservations v WHERE v.reservation_id = send.reservation_id FOR UPDATE;
    ELSE
      SELECT * INTO r FROM vault_reservations v
      WHERE v.key_id = p_key AND v.object_id = p_object FOR UPDATE;
    END IF;
    has_reservation := FOUND;
    IF NOT has_reservation AND p_kind <> 'create' THEN
      decision := 'unknown_payment_intent';
    ELSIF p_kind = 'capture' AND p_amount > r.amount_minor THEN
      decision := 'capture_above_reservation';
    END IF;
    wanted := decision = 'forward' AND p_kind <> 'cancel' AND (NOT has_reservation OR r.state = 'released');
    amount := coalesce(r.amount_minor, p_amount);
    currency := coalesce(r.currency, p_currency);
    IF has_reservation THEN reservation := r.reservation_id; END IF;
  END IF;

  IF wanted THEN
    SELECT c.cap_minor, c.expected_minor INTO cap, expected FROM vault_caps c
    WHERE c.key_id = p_key AND c.currency = vault_begin.currency;
    IF NOT FOUND THEN
      decision := 'currency_not_capped';
    ELSE
      w := CASE k.cap_basis WHEN 'day' THEN to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') ELSE '' END;
      INSERT INTO vault_windows (key_id, currency, "window") VALUES (p_key, vault_begin.currency, w)
      ON CONFLICT DO NOTHING;
      SELECT t.used, t.taken INTO used, wanted
      FROM vault_take(p_key, vault_begin.currency, w, amount) AS t;
      IF NOT wanted THEN
        decision := 'spend_cap_exceeded';
        SELECT v.used_minor INTO used FROM vault_windows v
        WHERE v.key_id = p_key AND v.currency = vault_begin.currency AND v."window" = w;
      ELSIF has_reservation THEN
        UPDATE vault_reservations v SET state = 'held', "window" = w, reason = 'in_flight', reserved_at = now(),
          settled_at = NULL, absent_since = NULL, looks = 0
        WHERE v.reservation_id = r.reservation_id;
      ELSE
        INSERT INTO vault_reservations (key_id, currency, "window", amount_minor, create_key, stripe_customer,
          marks, namespace, period, customer_id)
        VALUES (p_key, vault_begin.currency, w, amount, p_idempotency_key, p_stripe_customer, p_marks,
          p_namespace, p_period, p_customer)
        RETURNING * INTO r;
        reservation := r.reservation_id;
      END IF;
      IF wanted THEN
        INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
        VALUES (p_key, vault_begin.currency, w, reservation, 'reserve', amount, p_request::text);
      END IF;
    END IF;
  END IF;

  INSERT INTO vault_requests (request_id, key_id, idempotency_key, attempt_id, method, path, decision,
    amount_minor, currency, reservation_id, namespace, period, customer_id)
  VALUES (p_request, p_key, p_idempotency_key, p_attempt, p_method, p_path, decision,
    amount, vault_begin.currency, reservation, coalesce(r.namespace, p_namespace), coalesce(r.period, p_period),
    coalesce(r.customer_id, p_customer));

  IF decision = 'forward' AND send.key_id IS NOT NULL THEN
    UPDATE vault_sends s SET first_forwarded_at = coalesce(s.first_forwarded_at, now()), forwards = s.forwards + 1,
      unresolved = s.unresolved + 1, reservation_id = coalesce(s.reservation_id, reservation)
    WHERE s.key_id = p_key AND s.idempotency_key = p_idempotency_key;
    IF reservation IS NOT NULL THEN
      UPDATE vault_reservations v SET last_forward_at = now(), absent_since = NULL,
        next_look_at = now() + interval '2 minutes'
      WHERE v.reservation_id = reservation;
    END IF;
  END IF;
END $$;

-- Moves a locked reservation where Stripe's word leads, and says what was done. A success is the truth, also after a
-- release, and also above the cap; a sum is given back once; spent stays spent.
CREATE FUNCTION vault_move(p_reservation bigint, p_to text, p_reason text, p_cause text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r vault_reservations%ROWTYPE;
BEGIN
  SELECT * INTO r FROM vault_reservations WHERE reservation_id = p_reservation FOR UPDATE;
  IF r.state = 'spent' THEN RETURN 'spent'; END IF;
  IF p_to = 'spent' THEN
    IF r.state = 'released' THEN
      UPDATE vault_windows SET used_minor = used_minor + r.amount_minor
      WHERE key_id = r.key_id AND currency = r.currency AND "window" = r."window";
      INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
      VALUES (r.key_id, r.currency, r."window", p_reservation, 'reserve', r.amount_minor, p_cause);
    END IF;
    INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
    VALUES (r.key_id, r.currency, r."window", p_reservation, 'settle', r.amount_minor, p_cause);
  ELSIF p_to = 'released' AND r.state = 'held' THEN
    UPDATE vault_windows SET used_minor = used_minor - r.amount_minor
    WHERE key_id = r.key_id AND currency = r.currency AND "window" = r."window";
    INSERT INTO vault_ledger (key_id, currency, "window", reservation_id, entry, amount_minor, cause)
    VALUES (r.key_id, r.currency, r."window", p_reservation, 'release', r.amount_minor, p_cause);
  ELSIF r.state = 'released' THEN
    -- Nothing is set aside, and a hold cannot be made after the fact.
    RETURN 'released';
  END IF;
  UPDATE vault_reservations SET
    state = p_to::reservation_state,
    reason = p_reason,
    settled_at = CASE WHEN p_to = 'held' THEN NULL ELSE now() END
  WHERE reservation_id = p_reservation;
  RETURN p_to;
END $$;

-- What came of a forwarded request, in one commit. p_resolves: nothing (this send may yet have taken effect),
-- this send, or the whole key (its saved answer has come). A release waits until no send of the reservation is open.
CREATE FUNCTION vault_finish(
  p_request uuid, p_status integer, p_error text, p_stripe_request text, p_replayed boolean,
  p_duration integer, p_resolves text, p_to text, p_reason text, p_object text,
  OUT effect text)
LANGUAGE plpgsql AS $$
DECLARE
  q vault_requests%ROWTYPE;
  to_state text := p_to;
BEGIN
  SELECT * INTO STRICT q FROM vault_requests WHERE request_id = p_request;
  -- An answer counts once; of two at once the second fails on the answer's primary key and changes nothing.
  SELECT a.effect INTO effect FROM vault_answers a WHERE a.request_id = p_request;
  IF FOUND THEN RETURN; END IF;
  IF q.idempotency_key IS NOT NULL AND q.method <> 'GET' THEN
    UPDATE vault_sends s SET unresolved = CASE p_resolves
      WHEN 'key' THEN 0 WHEN 'send' THEN greatest(s.unresolved - 1, 0) ELSE s.unresolved END
    WHERE s.key_id = q.key_id AND s.idempotency_key = q.idempotency_key;
  END IF;
  effect := 'none';
  IF q.reservation_id IS NOT NULL THEN
    PERFORM FROM vault_reservations r WHERE r.reservation_id = q.reservation_id FOR UPDATE;
    IF p_object IS NOT NULL THEN
      UPDATE vault_reservations r SET object_id = p_object
      WHERE r.reservation_id = q.reservation_id AND r.object_id IS NULL;
    END IF;
    IF to_state = 'released' AND EXISTS (
      SELECT FROM vault_sends s WHERE s.reservation_id = q.reservation_id AND s.unresolved > 0) THEN
      to_state := 'held';
    END IF;
    effect := vault_move(q.reservation_id, to_state, p_reason, p_request::text);
  END IF;
  INSERT INTO vault_answers (request_id, status, error, stripe_request_id, replayed, effect, duration_ms)
  VALUES (p_request, p_status, p_error, p_stripe_request, p_replayed, effect, p_duration);
END $$;

-- What a look at Stripe says about a held reservation. p_seen: its last forward when the look began, since a look
-- proves nothing about a send that left after it. p_to is spent, held, released (nothing can follow any more) or
-- absent: no effect seen, which releases when looks a quiet time apart, and after the last send, agree.
CREATE FUNCTION vault_look(
  p_reservation bigint, p_seen timestamptz, p_to text, p_reason text, p_object text, p_quiet interval,
  OUT effect text)
LANGUAGE plpgsql AS $$
DECLARE
  r vault_reservations%ROWTYPE;
  to_state text := p_to;
BEGIN
  SELECT * INTO STRICT r FROM vault_reservations WHERE reservation_id = p_reservation FOR UPDATE;
  IF p_to IN ('released', 'absent') AND r.last_forward_at <> p_seen THEN
    to_state := 'held';
  ELSIF p_to = 'absent' THEN
    to_state := CASE WHEN r.absent_since <= now() - p_quiet AND r.absent_since >= r.last_forward_at + p_quiet
      THEN 'released' ELSE 'held' END;
  END IF;
  IF p_object IS NOT NULL THEN
    UPDATE vault_reservations SET object_id = p_object
    WHERE reservation_id = p_reservation AND object_id IS NULL;
  END IF;
  effect := vault_move(p_reservation, to_state, p_reason, 'look');
  UPDATE vault_reservations SET
    looks = looks + 1,
    absent_since = CASE WHEN p_to <> 'absent' THEN NULL
      WHEN now() >= last_forward_at + p_quiet THEN coalesce(absent_since, now()) END,
    next_look_at = CASE WHEN state <> 'held' THEN NULL
      ELSE now() + least(interval '1 hour', interval '30 seconds' * power(2, least(looks, 10))) END
  WHERE reservation_id = p_reservation;
  IF effect <> 'held' THEN
    UPDATE vault_sends SET unresolved = 0 WHERE reservation_id = p_reservation AND unresolved > 0;
  END IF;
END $$;
