-- 6. One forward transition, guarded as the article has it.
UPDATE payment_idem.orders
SET status = 'COMPLETED', paid_minor = paid_minor + $3, version = version + 1, ledger_seq = $4::bigint, ledger_head = $5::bytea,
    outbox_seq = $6::bigint, updated_at = $7
WHERE tenant = $1 AND order_id = $2 AND status IN ('PENDING', 'PROCESSING', 'FAILED', 'EXPIRED')
