-- The functions that callers use: the whole public interface in one place. Bodies: src/api.
--
-- They act as the owner of the extension, so that a role needs a grant to act and no privilege on any table; not by
-- SECURITY DEFINER, under which the immediate caller is no longer known (src/pg/caller.rs). The search_path is pinned
-- with pg_temp last, so that no temporary table stands in for one of ours.

CREATE FUNCTION payment_idem.create_tenant(name text, tenant uuid DEFAULT pg_catalog.gen_random_uuid())
RETURNS uuid LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'create_tenant_wrapper';
COMMENT ON FUNCTION payment_idem.create_tenant(text, uuid) IS
    'Makes a tenant and the ledger partitions that its events will need. The same call again changes nothing; the same key under another name is an error.';

CREATE FUNCTION payment_idem.create_source(tenant uuid, source text, gateway text, options jsonb DEFAULT '{}')
RETURNS void LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'create_source_wrapper';
COMMENT ON FUNCTION payment_idem.create_source(uuid, text, text, jsonb) IS
    'Makes a webhook endpoint of a tenant. Options: merchant_id, live_mode, id_signed, max_payload_bytes, keep_payload, tolerance_s, http_status, parameters. The same call again changes nothing; other facts are an error.';

CREATE FUNCTION payment_idem.add_secret(tenant uuid, source text, secret text, valid_until timestamptz DEFAULT NULL)
RETURNS bigint LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'add_secret_wrapper';
COMMENT ON FUNCTION payment_idem.add_secret(uuid, text, text, timestamptz) IS
    'Adds a signing secret, valid at once beside the others; returns its number. An active secret with the same text keeps its number and gets the new end.';

CREATE FUNCTION payment_idem.retire_secret(secret_id bigint, at timestamptz DEFAULT pg_catalog.clock_timestamp())
RETURNS void LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'retire_secret_wrapper';
COMMENT ON FUNCTION payment_idem.retire_secret(bigint, timestamptz) IS
    'Ends a secret''s validity at a moment; an earlier end stays. Effective for calls that start after the commit.';

CREATE FUNCTION payment_idem.define_gateway(name text, definition jsonb)
RETURNS void LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'define_gateway_wrapper';
COMMENT ON FUNCTION payment_idem.define_gateway(text, jsonb) IS
    'Adds a gateway''s definition or replaces it, for the whole database. Effective for calls that start after the commit.';

CREATE FUNCTION payment_idem.create_order(tenant uuid, merchant_id text, client_txn_id text, amount numeric, currency text,
                                          expires_at timestamptz DEFAULT NULL, gateway_order_id text DEFAULT NULL,
                                          customer_mobile text DEFAULT NULL)
RETURNS TABLE (outcome text, order_id uuid, status text)
LANGUAGE c ROWS 1 SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'create_order_wrapper';
COMMENT ON FUNCTION payment_idem.create_order(uuid, text, text, numeric, text, timestamptz, text, text) IS
    'Makes an order known (amount in major units: 1999.00) and applies the events that waited for it. Answers created, existing or conflict; facts given as NULL may be filled in later, never changed.';

CREATE FUNCTION payment_idem.ingest(tenant uuid, event_id text, payload bytea, sig text,
                                    source text DEFAULT 'default', headers jsonb DEFAULT NULL)
RETURNS SETOF payment_idem.ingest_result
LANGUAGE c ROWS 1 SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'ingest_wrapper';
COMMENT ON FUNCTION payment_idem.ingest(uuid, text, bytea, text, text, jsonb) IS
    'Takes in one webhook delivery, by its exact bytes, in the caller''s transaction: one authentic event, one durable effect. Commit whatever the outcome, then answer http_status.';

CREATE FUNCTION payment_idem.ingest(tenant uuid, event_id text, payload text, sig text,
                                    source text DEFAULT 'default', headers jsonb DEFAULT NULL)
RETURNS SETOF payment_idem.ingest_result
LANGUAGE c ROWS 1 SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'ingest_wrapper';
COMMENT ON FUNCTION payment_idem.ingest(uuid, text, text, text, text, jsonb) IS
    'The same over the UTF-8 bytes of a text.';

CREATE FUNCTION payment_idem.ingest_batch(tenant uuid, event_ids text[], payloads bytea[], sigs text[],
                                          source text DEFAULT 'default', headers jsonb[] DEFAULT NULL)
RETURNS TABLE (item integer, outcome text, reason text, http_status integer, event_id text, order_id uuid,
               order_status text, transaction_id bigint, exception_id bigint, payload_sha256 text, first_outcome text,
               first_received_at timestamptz)
LANGUAGE c ROWS 100 SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'ingest_batch_wrapper';
COMMENT ON FUNCTION payment_idem.ingest_batch(uuid, text[], bytea[], text[], text, jsonb[]) IS
    'Takes in many deliveries of one source (at most 10000), as if by one ingest after the other: one row per element of payloads, in their order, numbered by item from 1. The other arrays run along it or are NULL. Locks are taken in one order over the whole batch, so that batches do not deadlock.';

CREATE FUNCTION payment_idem.ingest_batch(tenant uuid, event_ids text[], payloads text[], sigs text[],
                                          source text DEFAULT 'default', headers jsonb[] DEFAULT NULL)
RETURNS TABLE (item integer, outcome text, reason text, http_status integer, event_id text, order_id uuid,
               order_status text, transaction_id bigint, exception_id bigint, payload_sha256 text, first_outcome text,
               first_received_at timestamptz)
LANGUAGE c ROWS 100 SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'ingest_batch_wrapper';
COMMENT ON FUNCTION payment_idem.ingest_batch(uuid, text[], text[], text[], text, jsonb[]) IS
    'The same over the UTF-8 bytes of texts.';

CREATE FUNCTION payment_idem.replay(tenant uuid, event_id text, payload bytea, sig text, why text,
                                    source text DEFAULT 'default', headers jsonb DEFAULT NULL)
RETURNS SETOF payment_idem.ingest_result
LANGUAGE c ROWS 1 SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'replay_wrapper';
COMMENT ON FUNCTION payment_idem.replay(uuid, text, bytea, text, text, text, jsonb) IS
    'Takes in a delivery that was kept elsewhere during an outage: as ingest, but its signed timestamp may have any age. For operators; each call leaves a row in replays.';

CREATE FUNCTION payment_idem.replay(tenant uuid, event_id text, payload text, sig text, why text,
                                    source text DEFAULT 'default', headers jsonb DEFAULT NULL)
RETURNS SETOF payment_idem.ingest_result
LANGUAGE c ROWS 1 SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'replay_wrapper';
COMMENT ON FUNCTION payment_idem.replay(uuid, text, text, text, text, text, jsonb) IS
    'The same over the UTF-8 bytes of a text.';

CREATE FUNCTION payment_idem.inspect(tenant uuid, source text, payload bytea, sig text, headers jsonb DEFAULT NULL,
                                     at timestamptz DEFAULT pg_catalog.clock_timestamp())
RETURNS jsonb LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'inspect_wrapper';
COMMENT ON FUNCTION payment_idem.inspect(uuid, text, bytea, text, jsonb, timestamptz) IS
    'What the verifier and the reader see of a delivery, judged by a moment, and which usual mistake would explain a wrong signature. Writes nothing; shows no secret and no right signature. For operators.';

CREATE FUNCTION payment_idem.inspect(tenant uuid, source text, payload text, sig text, headers jsonb DEFAULT NULL,
                                     at timestamptz DEFAULT pg_catalog.clock_timestamp())
RETURNS jsonb LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'inspect_wrapper';
COMMENT ON FUNCTION payment_idem.inspect(uuid, text, text, text, jsonb, timestamptz) IS
    'The same over the UTF-8 bytes of a text.';

CREATE FUNCTION payment_idem.claim(worker text, max_rows integer DEFAULT 10, lease interval DEFAULT '60 seconds',
                                   actions text[] DEFAULT NULL, tenant uuid DEFAULT NULL)
RETURNS TABLE (lease_token uuid, lease_until timestamptz, message_id uuid, tenant_id uuid, action text, order_id uuid,
               seq bigint, source text, event_id text, kind text, merchant_id text, client_txn_id text,
               amount_minor bigint, currency text, attempts integer, created_at timestamptz,
               gateway_order_id text, payment_refs jsonb)
LANGUAGE c ROWS 10 SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'claim_wrapper';
COMMENT ON FUNCTION payment_idem.claim(text, integer, interval, text[], uuid) IS
    'Leases outbox rows that are due, each to one worker, until lease_until. Do the work with message_id as idempotency key, then ack or nack with lease_token.';

CREATE FUNCTION payment_idem.ack(lease_token uuid) RETURNS boolean
LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'ack_wrapper';
COMMENT ON FUNCTION payment_idem.ack(uuid) IS
    'The work is done. False: the lease is no longer yours, somebody else has the row.';

CREATE FUNCTION payment_idem.nack(lease_token uuid, error text DEFAULT NULL, retry_after interval DEFAULT NULL)
RETURNS boolean
LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp
AS 'MODULE_PATHNAME', 'nack_wrapper';
COMMENT ON FUNCTION payment_idem.nack(uuid, text, interval) IS
    'The work failed: the row is due again after retry_after, or after a back-off that grows with its attempts. False: the lease is no longer yours.';
