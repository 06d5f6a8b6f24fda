-- 7. The fulfilment to be done.
INSERT INTO payment_idem.outbox (tenant, receipt, action, order_id, seq, available_at, created_at)
VALUES ($1, $2, 'fulfil_order', $3, $4::bigint, $5, $5)
