-- Where this database stood when it was bound: what a copy of it does not share. The system identifier
-- is of the server's data directory, the oid and name are of the database in it, and the id of the
-- Temporal namespace is made with it. A restored dump, a TEMPLATE copy or a database that meets another
-- Temporal differs in one of them and refuses to bill until somebody adopts it.
ALTER TABLE environment
  -- null where the role may not call pg_control_system(): then oid and name decide
  ADD COLUMN system_identifier text,
  ADD COLUMN database_oid bigint,
  ADD COLUMN database_name text,
  ADD COLUMN temporal_namespace text,
  -- null where the credentials may not describe the namespace: then its name decides
  ADD COLUMN temporal_namespace_id text,
  ADD COLUMN bound_at timestamptz,
  ADD CONSTRAINT binding_names_its_database CHECK (
    (bound_at IS NULL) = (database_oid IS NULL) AND (bound_at IS NULL) = (database_name IS NULL)
    AND (bound_at IS NOT NULL OR system_identifier IS NULL)),
  ADD CONSTRAINT temporal_id_has_a_name CHECK (temporal_namespace IS NOT NULL OR temporal_namespace_id IS NULL);

-- The keys of open slots were made for the account: under another one they would charge again. And a
-- database is bound once: a new identity is adopted, never made by deleting the old one.
CREATE FUNCTION check_environment_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.stripe_account, NEW.live_mode) IS DISTINCT FROM (OLD.stripe_account, OLD.live_mode)
    AND EXISTS (SELECT FROM billing_charges WHERE state IN ('claimed', 'sent', 'indeterminate', 'in_review')) THEN
    RAISE EXCEPTION 'slots are open under account %: their keys were made for it', OLD.stripe_account
      USING ERRCODE = 'check_violation', CONSTRAINT = 'account_changes_with_no_slot_open';
  END IF;
  IF NEW.database_id <> OLD.database_id OR NEW.created_at <> OLD.created_at THEN
    RAISE EXCEPTION 'the database keeps its id'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'database_keeps_its_id';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER environment_change BEFORE UPDATE ON environment
  FOR EACH ROW EXECUTE FUNCTION check_environment_change();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON environment
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
