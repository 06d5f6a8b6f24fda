-- The vocabulary that tables and functions share.

CREATE TYPE payment_idem.order_status AS ENUM
    ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'EXPIRED', 'REFUNDED');
COMMENT ON TYPE payment_idem.order_status IS
    'Where an order stands. Which moves are allowed is data: see transition_rules.';

CREATE TYPE payment_idem.payment_event_type AS ENUM
    ('PAYMENT_ATTEMPTED', 'WEBHOOK_RECEIVED', 'STATUS_VERIFIED', 'REFUND_INITIATED', 'REFUND_SETTLED');
COMMENT ON TYPE payment_idem.payment_event_type IS
    'How a ledger line came to be known.';

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
