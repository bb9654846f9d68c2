-- What is sent under a key is decided once: every attempt sends the same bytes under the same API
-- version, and an answer that was written stays. The slot has its own guard (0003).
CREATE FUNCTION check_frozen_generation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.idempotency_key, NEW.namespace, NEW.period, NEW.customer_id, NEW.operation, NEW.generation,
      NEW.request_body, NEW.api_version, NEW.created_at)
    IS DISTINCT FROM
     (OLD.idempotency_key, OLD.namespace, OLD.period, OLD.customer_id, OLD.operation, OLD.generation,
      OLD.request_body, OLD.api_version, OLD.created_at) THEN
    RAISE EXCEPTION 'the request under key % is frozen', OLD.idempotency_key
      USING ERRCODE = 'check_violation', CONSTRAINT = 'request_is_frozen';
  END IF;
  IF OLD.first_sent_at IS NOT NULL AND NEW.first_sent_at IS NULL THEN
    RAISE EXCEPTION 'key % has been sent and cannot be unsent', OLD.idempotency_key
      USING ERRCODE = 'check_violation', CONSTRAINT = 'sent_stays_sent';
  END IF;
  IF OLD.outcome IS NOT NULL AND NEW.outcome IS DISTINCT FROM OLD.outcome THEN
    RAISE EXCEPTION 'key % has its answer: %', OLD.idempotency_key, OLD.outcome
      USING ERRCODE = 'check_violation', CONSTRAINT = 'answer_is_final';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER frozen_generation BEFORE UPDATE ON charge_generations
  FOR EACH ROW EXECUTE FUNCTION check_frozen_generation();
