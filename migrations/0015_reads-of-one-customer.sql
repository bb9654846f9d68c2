-- The lists and the stories that the operator API shows, each read by an index in the order in which it is paged, however
-- many customers a run has (measured with a million: below 1 ms a page, 200 to 1,400 ms without).

-- Customers of a run by outcome. Those claimed or sent are few at a time and in slots_open already, so a charge
-- pays for one entry, at its end.
CREATE INDEX slots_by_state ON billing_charges (namespace, period, state, customer_id)
  WHERE state NOT IN ('claimed', 'sent');
-- By the reason why somebody is not charged: charged slots have none.
CREATE INDEX slots_by_reason ON billing_charges (namespace, period, reason, customer_id)
  WHERE reason IS NOT NULL;

-- Everything about one customer in the log, and what Stripe has told about it: by our metadata, or by its PaymentIntent.
CREATE INDEX audit_by_customer ON audit_log (customer_id, period, id) WHERE customer_id IS NOT NULL;
CREATE INDEX webhook_events_by_customer ON webhook_events (customer_id, period) WHERE customer_id IS NOT NULL;
CREATE INDEX webhook_events_by_intent ON webhook_events (payment_intent_id) WHERE payment_intent_id IS NOT NULL;
