-- 4. The payment's references; fewer rows than references mean that another order has one of them.
INSERT INTO payment_idem.payment_references (scope, gateway, kind, value, tenant, order_id, receipt, state)
VALUES ($1, '', 'bank', $2, $1, $5, $6, 'applied'),
       ($1, '', 'idempotency_hash', $3, $1, $5, $6, 'applied'),
       ($1, 'generic', 'payment', $4, $1, $5, $6, 'applied')
ON CONFLICT (scope, gateway, kind, value) DO NOTHING
