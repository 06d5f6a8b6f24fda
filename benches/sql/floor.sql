-- Peer (a), the floor: one prepared statement that makes the rows of one payment and verifies nothing.
-- Every value comes from the client or stands here as a constant; there is no look-up and no conflict handling.
--
-- $1 tenant  $2 event id  $3 digest of the body  $4 order id  $5 order reference  $6 amount  $7 currency
-- $8 bank reference  $9 references as jsonb  $10 event time  $11 now  $12 body  $13 payer
-- $14 payment reference  $15 idempotency hash  $16 ledger hash
WITH receipt AS (
    INSERT INTO payment_idem.event_receipts (tenant, source, identity, receipt, identity_kind, event_id, payload_sha256,
        event_type, kind, first_outcome, outcome, order_id, order_reference, amount_minor, currency, bank_utr,
        payment_refs, event_time, received_at, processed_at)
    VALUES ($1, 'default', $2, nextval('payment_idem.receipt_number'), 'event_id', $2, $3::bytea,
        'paid', 'payment_succeeded', 'applied', 'applied', $4, $5, $6, $7, $8, $9, $10, $11, $11)
    RETURNING receipt),
evidence AS (
    INSERT INTO payment_idem.payloads (tenant, receipt, order_id, received_at, raw_payload, payer_vpa)
    SELECT $1, receipt, $4, $11, $12::bytea, $13::text FROM receipt),
refs AS (
    INSERT INTO payment_idem.payment_references (scope, gateway, kind, value, tenant, order_id, receipt, state)
    SELECT $1, r.gateway, r.kind, r.value, $1, $4, receipt, 'applied'
    FROM receipt, (VALUES ('', 'bank', $8), ('', 'idempotency_hash', $15::text), ('generic', 'payment', $14::text))
        AS r (gateway, kind, value)
    WHERE r.value IS NOT NULL),
line AS (
    INSERT INTO payment_idem.transactions (tenant, receipt, kind, order_id, seq, event_type, amount_minor, currency,
        from_status, to_status, source, event_id, bank_utr, created_at, chain_version, hash)
    SELECT $1, receipt, 'payment_succeeded', $4, 1, 'WEBHOOK_RECEIVED'::payment_idem.payment_event_type, $6, $7,
        'PENDING'::payment_idem.order_status, 'COMPLETED'::payment_idem.order_status, 'default', $2, $8, $11, 1::smallint,
        $16::bytea
    FROM receipt),
paid AS (
    UPDATE payment_idem.orders
    SET status = 'COMPLETED', paid_minor = $6, version = 1, ledger_seq = 1, ledger_head = $16::bytea, outbox_seq = 1,
        updated_at = $11
    WHERE tenant = $1 AND order_id = $4)
INSERT INTO payment_idem.outbox (tenant, receipt, action, order_id, seq, available_at, created_at)
SELECT $1, receipt, 'fulfil_order', $4, 1, $11, $11 FROM receipt
