-- The log counts a success once per slot by a unique index, which says nothing about rows without one.
ALTER TABLE audit_log ADD CONSTRAINT logged_charge_names_its_slot CHECK (
  action <> 'slot.charged'
  OR (namespace IS NOT NULL AND period IS NOT NULL AND customer_id IS NOT NULL AND amount_minor IS NOT NULL));
