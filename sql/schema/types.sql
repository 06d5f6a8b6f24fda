-- The vocabulary that tables and functions share.

CREATE TYPE payment_idem.order_status AS ENUM
    ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'EXPIRED', 'REFUNDED');
COMMENT ON TYPE payment_idem.order_status IS
    'Where an order stands. Which moves are allowed is data: see transition_rules.';

CREATE TYPE payment_idem.payment_event_type AS ENUM
    ('PAYMENT_ATTEMPTED', 'WEBHOOK_RECEIVED', 'STATUS_VERIFIED', 'REFUND_INITIATED', 'REFUND_SETTLED');
COMMENT ON TYPE payment_idem.payment_event_type IS
    'How a ledger line came to be known.';

-- Domains, and not CHECKs of the tables, for what one column can tell by itself: PostgreSQL parses the CHECKs of a table
-- anew in every statement that writes it, and a third of a delivery's time went there; a domain's are kept per session.

CREATE DOMAIN payment_idem.sha256_digest AS bytea CHECK (octet_length(VALUE) = 32);
COMMENT ON DOMAIN payment_idem.sha256_digest IS 'A SHA-256 digest: 32 bytes.';
CREATE DOMAIN payment_idem.currency_code AS text COLLATE "C" CHECK (VALUE ~ '^[A-Z]{3}$');
COMMENT ON DOMAIN payment_idem.currency_code IS 'An ISO 4217 code, upper case.';
CREATE DOMAIN payment_idem.positive AS bigint CHECK (VALUE > 0);
COMMENT ON DOMAIN payment_idem.positive IS 'An amount in minor units, or a seq, from 1.';
CREATE DOMAIN payment_idem.not_negative AS bigint CHECK (VALUE >= 0);
COMMENT ON DOMAIN payment_idem.not_negative IS 'A sum in minor units, or a count, from 0.';
CREATE DOMAIN payment_idem.counter AS integer CHECK (VALUE >= 0);
COMMENT ON DOMAIN payment_idem.counter IS 'A number of times.';
CREATE DOMAIN payment_idem.finite_time AS timestamptz CHECK (isfinite(VALUE));
COMMENT ON DOMAIN payment_idem.finite_time IS 'A moment that comes in some month: no infinity.';
CREATE DOMAIN payment_idem.chain_version AS smallint CHECK (VALUE = 1);
COMMENT ON DOMAIN payment_idem.chain_version IS 'How a ledger line is hashed: see docs/ARCHITECTURE.md.';
CREATE DOMAIN payment_idem.outbox_action AS text COLLATE "C" CHECK (VALUE <> '');
COMMENT ON DOMAIN payment_idem.outbox_action IS 'What an outbox row asks for.';
CREATE DOMAIN payment_idem.identity_kind AS text COLLATE "C" CHECK (VALUE IN ('event_id', 'digest'));
COMMENT ON DOMAIN payment_idem.identity_kind IS 'What makes an event the same event: its signed id, or the digest of its bytes.';
CREATE DOMAIN payment_idem.receipt_outcome AS text COLLATE "C"
    CHECK (VALUE IN ('applied', 'recorded', 'parked', 'exception'));
COMMENT ON DOMAIN payment_idem.receipt_outcome IS 'The outcomes that leave a receipt.';
CREATE DOMAIN payment_idem.reference_state AS text COLLATE "C" CHECK (VALUE IN ('applied', 'held', 'contested'));
COMMENT ON DOMAIN payment_idem.reference_state IS 'What became of the money of a payment reference: see payment_references.';
CREATE DOMAIN payment_idem.order_key_kind AS text COLLATE "C" CHECK (VALUE IN ('client_txn', 'gateway_order'));
COMMENT ON DOMAIN payment_idem.order_key_kind IS 'Who gave a reference of an order: the merchant or the gateway.';

CREATE TYPE payment_idem.ingest_result AS (
    outcome           text,
    reason            text,
    http_status       integer,
    event_id          text,
    order_id          uuid,
    order_status      text,
    transaction_id    bigint,
    exception_id      bigint,
    payload_sha256    text,
    first_outcome     text,
    first_received_at timestamptz
);
COMMENT ON TYPE payment_idem.ingest_result IS
    'What ingest answers for one business event. See docs/OUTCOMES.md.';
COMMENT ON COLUMN payment_idem.ingest_result.outcome IS
    'applied, recorded, duplicate, parked, exception, digest_conflict or rejected.';
COMMENT ON COLUMN payment_idem.ingest_result.reason IS
    'Why, in one word of the outcome table; NULL for applied. Of a duplicate: the first reason.';
COMMENT ON COLUMN payment_idem.ingest_result.http_status IS
    'What to answer the gateway, after the transaction has committed.';
COMMENT ON COLUMN payment_idem.ingest_result.event_id IS
    'The gateway''s id of the event: from the signed body where it is there, else as given.';
COMMENT ON COLUMN payment_idem.ingest_result.order_id IS
    'The order that the event was judged against; NULL where there is none.';
COMMENT ON COLUMN payment_idem.ingest_result.order_status IS
    'The status of that order after the call.';
COMMENT ON COLUMN payment_idem.ingest_result.transaction_id IS
    'The number of the ledger line (equal to the receipt number); NULL where nothing was booked.';
COMMENT ON COLUMN payment_idem.ingest_result.exception_id IS
    'The number of the exception (equal to the receipt number); NULL where there is none.';
COMMENT ON COLUMN payment_idem.ingest_result.payload_sha256 IS
    'SHA-256 of the exact bytes given in this call, in lower-case hex; NULL where they are too many to be looked at.';
COMMENT ON COLUMN payment_idem.ingest_result.first_outcome IS
    'The outcome of the first delivery of this event.';
COMMENT ON COLUMN payment_idem.ingest_result.first_received_at IS
    'When the first delivery of this event was received.';
