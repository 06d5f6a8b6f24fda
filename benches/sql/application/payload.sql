-- 2. The evidence.
INSERT INTO payment_idem.payloads (tenant, receipt, order_id, received_at, raw_payload, payer_vpa)
VALUES ($1, $2, $3, $4::timestamptz, $5, $6)
