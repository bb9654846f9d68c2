/** One row for each customer and period that is through; the primary key sees to it. */
export const SCHEMA = `
  CREATE TABLE completed_charges (
    customer_id text NOT NULL,
    period text NOT NULL,
    payment_intent_id text,
    PRIMARY KEY (customer_id, period)
  )`;
