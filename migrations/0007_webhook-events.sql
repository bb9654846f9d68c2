CREATE TYPE webhook_state AS ENUM ('received', 'parked', 'processed');
CREATE TYPE webhook_result AS ENUM (
  'ignored', 'noted', 'already_known', 'looked', 'other_intent', 'other_success', 'unmatched', 'gave_up'
);

-- The inbox of Stripe's events: stored, then acknowledged, then processed once. An event is a hint to
-- look at Stripe, so only what finds its slot is kept; the payload holds personal data and is not.
CREATE TABLE webhook_events (
  event_id          text PRIMARY KEY,
  type              text NOT NULL,
  api_version       text,
  -- of a Connect event only; any other account than ours is refused before it comes here
  account           text,
  livemode          boolean NOT NULL,
  created_at        timestamptz NOT NULL,
  object_id         text NOT NULL,
  payment_intent_id text,
  charge_id         text,
  -- the key of the request that caused it, when it is one of ours
  idempotency_key   text,
  -- our metadata, when the object carries it and it names a slot
  namespace         text,
  period            text,
  customer_id       text,
  received_at       timestamptz NOT NULL DEFAULT now(),
  state             webhook_state NOT NULL DEFAULT 'received',
  -- tries to process it, and the fence of the one under way
  attempts          integer NOT NULL DEFAULT 0,
  -- while a try is under way: when another server may take it over
  next_try_at       timestamptz NOT NULL DEFAULT now(),
  last_error        text,
  result            webhook_result,
  processed_at      timestamptz,
  CONSTRAINT webhook_id_is_an_id CHECK (event_id ~ '^[A-Za-z0-9_]{1,255}$'),
  CONSTRAINT webhook_type_is_a_name CHECK (type ~ '^[a-z0-9_.]{1,100}$'),
  CONSTRAINT webhook_names_a_whole_slot CHECK (num_nulls(namespace, period, customer_id) IN (0, 3)),
  CONSTRAINT webhook_customer_is_opaque CHECK (customer_id ~ '^[A-Za-z0-9_.-]{1,64}$'),
  CONSTRAINT webhook_processed_iff_result CHECK ((state = 'processed') = (result IS NOT NULL)),
  CONSTRAINT webhook_processed_iff_time CHECK ((state = 'processed') = (processed_at IS NOT NULL)),
  CONSTRAINT webhook_attempts_not_negative CHECK (attempts >= 0)
);

-- What is due, oldest first; processed events are not in it.
CREATE INDEX webhook_events_due ON webhook_events (next_try_at) WHERE state <> 'processed';
CREATE INDEX webhook_events_processed ON webhook_events (processed_at) WHERE state = 'processed';

-- What an event said never changes, a processed one is never processed again, and one that waits is
-- never deleted: only then may Stripe be told that we have it.
CREATE FUNCTION check_webhook_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state = 'processed' AND TG_OP = 'UPDATE' THEN
    RAISE EXCEPTION 'webhook event % is processed and never changes', OLD.event_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'webhook_processed_once';
  END IF;
  IF TG_OP = 'DELETE' THEN
    IF OLD.state <> 'processed' THEN
      RAISE EXCEPTION 'webhook event % is not processed and is not deleted', OLD.event_id
        USING ERRCODE = 'restrict_violation', CONSTRAINT = 'webhook_kept_until_processed';
    END IF;
    RETURN OLD;
  END IF;
  IF (NEW.event_id, NEW.type, NEW.api_version, NEW.account, NEW.livemode, NEW.created_at, NEW.object_id,
      NEW.payment_intent_id, NEW.charge_id, NEW.idempotency_key, NEW.namespace, NEW.period, NEW.customer_id,
      NEW.received_at)
     IS DISTINCT FROM
     (OLD.event_id, OLD.type, OLD.api_version, OLD.account, OLD.livemode, OLD.created_at, OLD.object_id,
      OLD.payment_intent_id, OLD.charge_id, OLD.idempotency_key, OLD.namespace, OLD.period, OLD.customer_id,
      OLD.received_at)
  THEN
    RAISE EXCEPTION 'webhook event %: what it said never changes', OLD.event_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'webhook_event_is_frozen';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER webhook_event_guard BEFORE UPDATE OR DELETE ON webhook_events
  FOR EACH ROW EXECUTE FUNCTION check_webhook_event();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON webhook_events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
