-- What the peers need beside the extension's own tables.
CREATE SCHEMA bench;
CREATE EXTENSION pgcrypto SCHEMA bench;

-- One row of ingest_result; inlined where it is called.
CREATE FUNCTION bench.answer(outcome text, reason text, http_status integer, event_id text DEFAULT NULL,
    order_id uuid DEFAULT NULL, order_status text DEFAULT NULL, receipt bigint DEFAULT NULL, sha256 bytea DEFAULT NULL,
    first_outcome text DEFAULT NULL, first_received_at timestamptz DEFAULT NULL)
RETURNS payment_idem.ingest_result LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(outcome, reason, http_status, event_id, order_id, order_status, receipt, NULL::bigint, encode(sha256, 'hex'),
               first_outcome, first_received_at)::payment_idem.ingest_result
$$;
