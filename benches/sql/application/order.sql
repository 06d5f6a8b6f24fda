-- 3. Locks the order; the application compares amount, currency and status.
SELECT amount_minor, currency, status::text, ledger_seq, ledger_head, outbox_seq
FROM payment_idem.orders WHERE tenant = $1 AND order_id = $2 FOR UPDATE
