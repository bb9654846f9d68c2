-- The HTTP layer's keys: one row per caller and key, from the moment a request takes it until its stored response has
-- served its time. Stands alone, so that another application can have it as it is.

CREATE TYPE idempotency_state AS ENUM ('IN_PROGRESS', 'COMPLETED', 'FAILED');

-- What one column may hold is said by its type: a CHECK of the table is read and planned anew by every statement, and
-- nine of them were a third of PostgreSQL's work for a key.
CREATE DOMAIN idempotency_record_principal AS text CONSTRAINT idempotency_principal_length CHECK (length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN idempotency_record_endpoint AS text CONSTRAINT idempotency_endpoint_length CHECK (length(VALUE) BETWEEN 1 AND 1024);
CREATE DOMAIN idempotency_record_key AS text CONSTRAINT idempotency_key_length CHECK (length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN idempotency_record_fingerprint AS bytea CONSTRAINT idempotency_fingerprint_is_sha256 CHECK (length(VALUE) = 32);
CREATE DOMAIN idempotency_record_status AS smallint CONSTRAINT idempotency_status_is_final CHECK (VALUE BETWEEN 200 AND 599);

CREATE TABLE idempotency_records (
  principal       idempotency_record_principal NOT NULL,
  -- '*' where one key stands for one request of the whole API, else the route
  endpoint        idempotency_record_endpoint NOT NULL,
  idempotency_key idempotency_record_key NOT NULL,
  fingerprint     idempotency_record_fingerprint NOT NULL,
  state           idempotency_state NOT NULL DEFAULT 'IN_PROGRESS',
  -- who answers for the key: one try of one process. Every other holder adds one to the fence.
  holder          uuid NOT NULL,
  fence           bigint NOT NULL DEFAULT 1,
  -- an earlier holder may have got somewhere: then the key is never given back as if nothing had been
  taken_over      boolean NOT NULL DEFAULT false,
  -- until then nobody else may take it: minutes, kept up while the handler is at work
  lease_until     timestamptz,
  created_at      timestamptz NOT NULL DEFAULT now(),
  completed_at    timestamptz,
  -- until then the stored response is answered
  expires_at      timestamptz,
  status          idempotency_record_status,
  -- [[name, value], …]: the allow-listed ones
  headers         jsonb,
  -- NULL of a stored response: it was delivered and not kept
  body            bytea,
  CONSTRAINT idempotency_records_pkey PRIMARY KEY (principal, endpoint, idempotency_key),
  CONSTRAINT idempotency_leased_or_stored CHECK (CASE state WHEN 'IN_PROGRESS'
    THEN lease_until IS NOT NULL AND num_nonnulls(completed_at, expires_at, status, headers, body) = 0
    ELSE lease_until IS NULL AND num_nulls(completed_at, expires_at, status, headers) = 0
      AND (state = 'FAILED') = (status >= 500) END)
  -- The columns that change from claim to answer stand in no index but the small ones below; room in the page
  -- lets the answer be written beside its claim.
) WITH (fillfactor = 50);

-- What the purge removes, and what waits for somebody to look; a key in flight is in neither for long.
CREATE INDEX idempotency_records_expiring ON idempotency_records (expires_at) WHERE state <> 'IN_PROGRESS';
CREATE INDEX idempotency_records_in_flight ON idempotency_records (lease_until) WHERE state = 'IN_PROGRESS';

-- A response that may still be answered never changes and never goes, whoever asks.
CREATE FUNCTION keep_stored_response() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the stored response of key % is answered until %', OLD.idempotency_key, OLD.expires_at
    USING ERRCODE = 'restrict_violation', CONSTRAINT = 'idempotency_stored_response_is_kept';
END $$;
CREATE TRIGGER stored_response_is_kept BEFORE UPDATE OR DELETE ON idempotency_records
  FOR EACH ROW WHEN (OLD.state <> 'IN_PROGRESS' AND OLD.expires_at > now())
  EXECUTE FUNCTION keep_stored_response();

-- Takes the key or says what stands in the way. One statement of one commit, so that no key is held by a transaction,
-- and nobody waits for a holder: only for the commit of a rival's insert, and not for long.
CREATE FUNCTION idempotency_claim(
  p_principal text, p_endpoint text, p_key text, p_fingerprint bytea,
  p_holder uuid, p_lease_ms bigint, p_rerun boolean
) RETURNS TABLE (answer text, fence bigint, state idempotency_state, status smallint, headers jsonb, body bytea)
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
DECLARE
  record idempotency_records;
  lease timestamptz := now() + p_lease_ms * interval '1 millisecond';
BEGIN
  -- Another round only when the row was given back, purged or taken between two statements.
  FOR round IN 1..3 LOOP
    INSERT INTO idempotency_records (principal, endpoint, idempotency_key, fingerprint, holder, lease_until)
    VALUES (p_principal, p_endpoint, p_key, p_fingerprint, p_holder, lease)
    ON CONFLICT ON CONSTRAINT idempotency_records_pkey DO NOTHING;
    IF FOUND THEN
      RETURN QUERY SELECT 'claimed', 1::bigint, NULL::idempotency_state, NULL::smallint, NULL::jsonb, NULL::bytea;
      RETURN;
    END IF;
    SELECT * INTO record FROM idempotency_records
      WHERE principal = p_principal AND endpoint = p_endpoint AND idempotency_key = p_key;
    CONTINUE WHEN NOT FOUND;

    IF record.state <> 'IN_PROGRESS' AND record.expires_at <= now() THEN
      -- Its time is over, and the purge has not come by yet.
      UPDATE idempotency_records SET
        fingerprint = p_fingerprint, state = 'IN_PROGRESS', holder = p_holder, fence = fence + 1, taken_over = false,
        lease_until = lease, created_at = now(), completed_at = NULL, expires_at = NULL, status = NULL, headers = NULL, body = NULL
      WHERE principal = p_principal AND endpoint = p_endpoint AND idempotency_key = p_key
        AND fence = record.fence AND state = record.state;
      CONTINUE WHEN NOT FOUND;
      RETURN QUERY SELECT 'claimed', record.fence + 1, NULL::idempotency_state, NULL::smallint, NULL::jsonb, NULL::bytea;
      RETURN;
    END IF;
    IF record.fingerprint <> p_fingerprint THEN
      RETURN QUERY SELECT 'mismatch', record.fence, record.state, NULL::smallint, NULL::jsonb, NULL::bytea;
      RETURN;
    END IF;
    IF record.state <> 'IN_PROGRESS' THEN
      RETURN QUERY SELECT 'stored', record.fence, record.state, record.status::smallint, record.headers, record.body;
      RETURN;
    END IF;
    IF record.holder = p_holder THEN
      -- The same try again, whose first answer was lost: its lease begins anew.
      UPDATE idempotency_records SET lease_until = lease
      WHERE principal = p_principal AND endpoint = p_endpoint AND idempotency_key = p_key
        AND state = 'IN_PROGRESS' AND holder = p_holder AND fence = record.fence;
      CONTINUE WHEN NOT FOUND;
      RETURN QUERY SELECT CASE WHEN record.taken_over THEN 'takenOver' ELSE 'claimed' END, record.fence, NULL::idempotency_state, NULL::smallint, NULL::jsonb, NULL::bytea;
      RETURN;
    END IF;
    IF record.lease_until > now() THEN
      RETURN QUERY SELECT 'inFlight', record.fence, record.state, NULL::smallint, NULL::jsonb, NULL::bytea;
      RETURN;
    END IF;
    IF NOT p_rerun THEN
      RETURN QUERY SELECT 'interrupted', record.fence, record.state, NULL::smallint, NULL::jsonb, NULL::bytea;
      RETURN;
    END IF;
    -- Somebody is at the row at this very moment: its holder after all, or another that takes over.
    PERFORM FROM idempotency_records
      WHERE principal = p_principal AND endpoint = p_endpoint AND idempotency_key = p_key
      FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN QUERY SELECT 'inFlight', record.fence, record.state, NULL::smallint, NULL::jsonb, NULL::bytea;
      RETURN;
    END IF;
    UPDATE idempotency_records SET holder = p_holder, fence = fence + 1, taken_over = true, lease_until = lease
    WHERE principal = p_principal AND endpoint = p_endpoint AND idempotency_key = p_key
      AND state = 'IN_PROGRESS' AND lease_until <= now() AND fence = record.fence AND fingerprint = p_fingerprint;
    CONTINUE WHEN NOT FOUND;
    RETURN QUERY SELECT 'takenOver', record.fence + 1, NULL::idempotency_state, NULL::smallint, NULL::jsonb, NULL::bytea;
    RETURN;
  END LOOP;
  RETURN QUERY SELECT 'inFlight', NULL::bigint, NULL::idempotency_state, NULL::smallint, NULL::jsonb, NULL::bytea;
END $$;
