-- Paid orders in bulk, as thousands of past deliveries would have left them.
-- n numbers them; ids that are time-ordered rise with n (10 ms apart, in the past), random ones do not.

CREATE FUNCTION bench.time_ordered(n bigint, random_part text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT lpad(to_hex(1500000000000 + 10 * n), 12, '0') || '7' || substr(random_part, 1, 3) || '8' || substr(random_part, 4, 15)
$$;

CREATE PROCEDURE bench.fill(in_tenant uuid, first_n bigint, last_n bigint, random_ids boolean) LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMP TABLE batch ON COMMIT DROP AS
    SELECT n, nextval('payment_idem.receipt_number') AS receipt, now() - interval '1 hour' AS at,
           bench.time_ordered(n, md5('order' || n))::uuid AS order_id,
           'ORD-' || lpad(n::text, 12, '0') AS reference,
           1000 + n % 9000 AS amount,
           'evt_' || CASE WHEN random_ids THEN md5('event' || n) ELSE bench.time_ordered(n, md5('event' || n)) END AS event_id,
           'pay_' || CASE WHEN random_ids THEN md5('payment' || n) ELSE bench.time_ordered(n, md5('payment' || n)) END AS payment,
           CASE WHEN random_ids THEN upper(left(md5('utr' || n), 16)) ELSE lpad(n::text, 16, '0') END AS utr,
           sha256(('line' || n)::bytea) AS hash
    FROM generate_series(first_n, last_n) AS n;
    INSERT INTO payment_idem.order_keys (tenant, kind, value) SELECT in_tenant, 'client_txn', reference FROM batch;
    INSERT INTO payment_idem.orders (tenant, order_id, merchant_id, client_txn_id, amount_minor, currency, status, paid_minor,
        version, ledger_seq, ledger_head, outbox_seq, created_at, updated_at)
    SELECT in_tenant, order_id, 'm1', reference, amount, 'USD', 'COMPLETED', amount, 1, 1, hash, 1, at, at FROM batch;
    INSERT INTO payment_idem.event_receipts (tenant, source, identity, receipt, identity_kind, event_id, payload_sha256,
        event_type, kind, first_outcome, outcome, order_id, order_reference, amount_minor, currency, bank_utr, payment_refs,
        event_time, received_at, processed_at)
    SELECT in_tenant, 'default', event_id, receipt, 'event_id', event_id, hash, 'paid', 'payment_succeeded', 'applied',
        'applied', order_id, reference, amount, 'USD', utr, jsonb_build_object('bank', utr, 'payment', payment), at, at, at
    FROM batch;
    INSERT INTO payment_idem.payloads (tenant, receipt, order_id, received_at, raw_payload, payer_vpa)
    SELECT in_tenant, receipt, order_id, at, convert_to(repeat(event_id, 7), 'UTF8'), 'a.customer@bank' FROM batch;
    INSERT INTO payment_idem.payment_references (scope, gateway, kind, value, tenant, order_id, receipt, state)
    SELECT in_tenant, r.gateway, r.kind, r.value, in_tenant, order_id, receipt, 'applied'
    FROM batch, LATERAL (VALUES ('', 'bank', utr), ('', 'idempotency_hash', encode(sha256((reference || utr)::bytea), 'hex')),
                                ('generic', 'payment', payment)) AS r (gateway, kind, value);
    INSERT INTO payment_idem.transactions (tenant, receipt, kind, order_id, seq, event_type, amount_minor, currency,
        from_status, to_status, source, event_id, bank_utr, created_at, chain_version, hash)
    SELECT in_tenant, receipt, 'payment_succeeded', order_id, 1, 'WEBHOOK_RECEIVED', amount, 'USD', 'PENDING', 'COMPLETED',
        'default', event_id, utr, at, 1, hash FROM batch;
    INSERT INTO payment_idem.outbox (tenant, receipt, action, order_id, seq, attempts, available_at, created_at, delivered_at)
    SELECT in_tenant, receipt, 'fulfil_order', order_id, 1, 1, at, at, at FROM batch;
END $$;
