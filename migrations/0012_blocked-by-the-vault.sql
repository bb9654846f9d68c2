-- True where the vault refused a send itself: Stripe has never seen it, so it proves nothing and starts no clock. A key
-- of which every send was refused there is as good as unsent, and is billed under once the cap has room.
ALTER TABLE charge_attempt_answers ADD COLUMN never_reached_stripe boolean NOT NULL DEFAULT false;
