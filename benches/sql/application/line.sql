-- 5. The ledger line.
INSERT INTO payment_idem.transactions (tenant, receipt, kind, order_id, seq, event_type, amount_minor, currency,
    from_status, to_status, source, event_id, bank_utr, created_at, chain_version, prev_hash, hash)
VALUES ($1, $2, 'payment_succeeded', $3, $4::bigint, 'WEBHOOK_RECEIVED', $5, $6, 'PENDING', 'COMPLETED', 'default', $7, $8, $9::timestamptz, 1,
    $10::bytea, $11::bytea)
