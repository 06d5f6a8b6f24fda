-- 1. The receipt, ON CONFLICT DO NOTHING: no row back means a duplicate. The order it names is found on the way.
INSERT INTO payment_idem.event_receipts (tenant, source, identity, receipt, identity_kind, event_id, payload_sha256,
    event_type, kind, first_outcome, outcome, order_id, order_reference, amount_minor, currency, bank_utr, payment_refs,
    event_time, received_at, processed_at)
SELECT $1, 'default', $2, nextval('payment_idem.receipt_number'), 'event_id', $2, $3::bytea,
    'paid', 'payment_succeeded', 'applied', 'applied', o.order_id, o.client_txn_id, $4::bigint, $5::text, $6::text,
    $7::jsonb, $8::timestamptz, $9::timestamptz, $9
FROM payment_idem.orders o
WHERE o.tenant = $1 AND o.client_txn_id = $10 AND o.merchant_id = $11
ON CONFLICT (tenant, source, identity) DO NOTHING
RETURNING receipt, order_id
