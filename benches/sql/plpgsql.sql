-- Peer (c): the same checks and the same rows in one PL/pgSQL function, with pgcrypto's hmac() and digest().
-- It runs with its caller's rights and pins no search_path, both of which would cost.
CREATE FUNCTION bench.ingest(in_tenant uuid, in_event_id text, in_payload bytea, in_sig text)
RETURNS SETOF payment_idem.ingest_result LANGUAGE plpgsql ROWS 1 AS $$
DECLARE
    now        CONSTANT timestamptz := clock_timestamp();
    sha256     CONSTANT bytea := bench.digest(in_payload, 'sha256');
    secrets    text[];
    merchant   text;
    keep       boolean;
    size_limit integer;
    body       jsonb;
    amount     bigint;
    in_currency text;
    utr        text;
    payment    text;
    known      record;
    customer   payment_idem.orders;
    number     bigint;
    hash       bytea;
    fresh      bigint;
BEGIN
    SELECT s.merchant_id, s.keep_payload, s.max_payload_bytes,
           ARRAY(SELECT secret FROM payment_idem.signing_secrets x
                 WHERE x.tenant = s.tenant AND x.source = s.source
                   AND x.valid_from <= now AND (x.valid_until IS NULL OR x.valid_until > now))
    INTO merchant, keep, size_limit, secrets
    FROM payment_idem.sources s WHERE s.tenant = in_tenant AND s.source = 'default';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such source' USING ERRCODE = 'undefined_object';
    ELSIF octet_length(in_payload) > size_limit THEN
        RETURN NEXT bench.answer('rejected', 'too_large', 413);
        RETURN;
    ELSIF in_event_id !~ '^[!-~]{1,255}$' THEN
        RETURN NEXT bench.answer('rejected', 'event_id_malformed', 400);
        RETURN;
    ELSIF NOT EXISTS (SELECT FROM unnest(secrets) AS secret
                      WHERE encode(bench.hmac(in_payload, convert_to(secret, 'UTF8'), 'sha256'), 'hex') = in_sig) THEN
        RETURN NEXT bench.answer('rejected', 'signature_mismatch', 401);
        RETURN;
    END IF;

    body := convert_from(in_payload, 'UTF8')::jsonb;
    IF body ->> 'id' IS DISTINCT FROM in_event_id THEN
        RETURN NEXT bench.answer('rejected', 'event_id_mismatch', 400);
        RETURN;
    END IF;
    amount := body ->> 'amount';
    in_currency := upper(body ->> 'currency');
    utr := body ->> 'utr';
    payment := body ->> 'payment';

    SELECT r.receipt, r.payload_sha256, r.outcome, r.reason, r.order_id, r.received_at INTO known
    FROM payment_idem.event_receipts r
    WHERE r.tenant = in_tenant AND r.source = 'default' AND r.identity = in_event_id;
    IF FOUND THEN
        RETURN NEXT bench.answer(CASE known.payload_sha256 WHEN sha256 THEN 'duplicate' ELSE 'digest_conflict' END,
                                 known.reason, 200, in_event_id, known.order_id, NULL, known.receipt, sha256, known.outcome,
                                 known.received_at);
        RETURN;
    END IF;

    SELECT o.* INTO customer FROM payment_idem.orders o
    WHERE o.tenant = in_tenant AND o.client_txn_id = body ->> 'order' AND o.merchant_id = merchant
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NEXT bench.answer('parked', 'order_not_found', 200, in_event_id);
        RETURN;
    ELSIF body ->> 'type' <> 'paid' OR NOT (body ->> 'livemode')::boolean THEN
        RETURN NEXT bench.answer('recorded', 'unmapped_type', 200, in_event_id, customer.order_id, customer.status::text);
        RETURN;
    ELSIF customer.amount_minor IS DISTINCT FROM amount OR customer.currency IS DISTINCT FROM in_currency THEN
        RETURN NEXT bench.answer('exception', 'amount_mismatch', 200, in_event_id, customer.order_id, customer.status::text);
        RETURN;
    ELSIF customer.status NOT IN ('PENDING', 'PROCESSING', 'FAILED', 'EXPIRED') THEN
        RETURN NEXT bench.answer('exception', 'second_payment', 200, in_event_id, customer.order_id, customer.status::text);
        RETURN;
    END IF;

    INSERT INTO payment_idem.event_receipts (tenant, source, identity, receipt, identity_kind, event_id, payload_sha256,
        event_type, kind, first_outcome, outcome, order_id, order_reference, amount_minor, currency, bank_utr, payment_refs,
        event_time, received_at, processed_at)
    VALUES (in_tenant, 'default', in_event_id, nextval('payment_idem.receipt_number'), 'event_id', in_event_id, sha256,
        body ->> 'type', 'payment_succeeded', 'applied', 'applied', customer.order_id, customer.client_txn_id, amount,
        in_currency, utr, jsonb_build_object('bank', utr, 'payment', payment),
        to_timestamp((body ->> 'created')::bigint), now, now)
    ON CONFLICT (tenant, source, identity) DO NOTHING
    RETURNING receipt INTO number;
    IF number IS NULL THEN -- a rival was first
        RETURN QUERY SELECT * FROM bench.ingest(in_tenant, in_event_id, in_payload, in_sig);
        RETURN;
    END IF;

    INSERT INTO payment_idem.payment_references (scope, gateway, kind, value, tenant, order_id, receipt, state)
    VALUES (in_tenant, '', 'bank', utr, in_tenant, customer.order_id, number, 'applied'),
           (in_tenant, '', 'idempotency_hash',
            encode(bench.digest(int4send(octet_length(customer.client_txn_id)) || convert_to(customer.client_txn_id, 'UTF8')
                                || int4send(octet_length(utr)) || convert_to(utr, 'UTF8')
                                || int4send(8) || int8send(amount), 'sha256'), 'hex'),
            in_tenant, customer.order_id, number, 'applied'),
           (in_tenant, 'generic', 'payment', payment, in_tenant, customer.order_id, number, 'applied')
    ON CONFLICT (scope, gateway, kind, value) DO NOTHING;
    GET DIAGNOSTICS fresh = ROW_COUNT;
    IF fresh < 3 THEN
        RAISE EXCEPTION 'a reference of the payment belongs to another order';
    END IF;

    hash := bench.digest(ROW(1, customer.ledger_head, in_tenant, number, 'payment_succeeded', customer.order_id,
                             customer.ledger_seq + 1, 'WEBHOOK_RECEIVED', amount, in_currency, customer.status, 'COMPLETED',
                             'default', in_event_id, NULL, utr, now)::text, 'sha256');
    INSERT INTO payment_idem.transactions (tenant, receipt, kind, order_id, seq, event_type, amount_minor, currency,
        from_status, to_status, source, event_id, bank_utr, created_at, chain_version, prev_hash, hash)
    VALUES (in_tenant, number, 'payment_succeeded', customer.order_id, customer.ledger_seq + 1, 'WEBHOOK_RECEIVED', amount,
        in_currency, customer.status, 'COMPLETED', 'default', in_event_id, utr, now, 1, customer.ledger_head, hash);
    UPDATE payment_idem.orders o
    SET status = 'COMPLETED', paid_minor = o.paid_minor + amount, version = o.version + 1, ledger_seq = o.ledger_seq + 1,
        ledger_head = hash, outbox_seq = o.outbox_seq + 1, updated_at = now
    WHERE o.tenant = in_tenant AND o.order_id = customer.order_id;
    INSERT INTO payment_idem.outbox (tenant, receipt, action, order_id, seq, available_at, created_at)
    VALUES (in_tenant, number, 'fulfil_order', customer.order_id, customer.outbox_seq + 1, now, now);
    IF keep THEN
        INSERT INTO payment_idem.payloads (tenant, receipt, order_id, received_at, raw_payload, payer_vpa)
        VALUES (in_tenant, number, customer.order_id, now, in_payload, body ->> 'payer_vpa');
    END IF;
    RETURN NEXT bench.answer('applied', NULL, 200, in_event_id, customer.order_id, 'COMPLETED', number, sha256, 'applied', now);
END $$
