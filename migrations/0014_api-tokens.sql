-- What a caller of the operator API may do; each role may do what the ones before it may.
CREATE TYPE api_role AS ENUM ('viewer', 'operator', 'approver', 'admin');

-- Tokens of the operator API. The secret is never here: only the SHA-256 of the whole token. token_id is its public
-- part. A person or system keeps its name when its token is replaced: logs and idempotency keys go by the name.
CREATE TABLE api_tokens (
  token_id     text PRIMARY KEY,
  name         text NOT NULL,
  role         api_role NOT NULL,
  secret_hash  bytea NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT now(),
  created_by   text NOT NULL,
  expires_at   timestamptz NOT NULL,
  revoked_at   timestamptz,
  -- to the minute: a busy token does not cost a write per request
  last_used_at timestamptz,
  CONSTRAINT api_token_id_is_hex CHECK (token_id ~ '^[0-9a-f]{16}$'),
  CONSTRAINT api_token_names_its_holder CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  CONSTRAINT api_token_secret_is_hashed CHECK (length(secret_hash) = 32),
  CONSTRAINT api_token_says_who_made_it CHECK (created_by <> ''),
  CONSTRAINT api_token_ends CHECK (expires_at > created_at)
);
