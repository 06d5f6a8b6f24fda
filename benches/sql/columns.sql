-- Which columns the events with numbers in ($2, $3] have filled, as table.column.
WITH filled AS (
    SELECT 'event_receipts' AS of, to_jsonb(t) AS r FROM payment_idem.event_receipts t WHERE t.receipt > $2 AND t.receipt <= $3
    UNION ALL
    SELECT 'payloads', to_jsonb(t) FROM payment_idem.payloads t WHERE t.tenant = $1 AND t.receipt > $2 AND t.receipt <= $3
    UNION ALL
    SELECT 'payment_references ' || t.kind, to_jsonb(t) FROM payment_idem.payment_references t
    WHERE t.scope = $1 AND t.receipt > $2 AND t.receipt <= $3
    UNION ALL
    SELECT 'transactions', to_jsonb(t) FROM payment_idem.transactions t
    WHERE t.tenant = $1 AND t.receipt > $2 AND t.receipt <= $3
    UNION ALL
    SELECT 'orders', to_jsonb(o) FROM payment_idem.event_receipts t
    JOIN payment_idem.orders o ON o.tenant = t.tenant AND o.order_id = t.order_id
    WHERE t.receipt > $2 AND t.receipt <= $3
    UNION ALL
    SELECT 'outbox', to_jsonb(t) FROM payment_idem.outbox t WHERE t.tenant = $1 AND t.receipt > $2 AND t.receipt <= $3)
SELECT array_agg(DISTINCT of || '.' || key ORDER BY of || '.' || key)
FROM filled, jsonb_each(r) WHERE value <> 'null'
