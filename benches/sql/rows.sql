-- How many rows the events with numbers in ($2, $3] have made in each table; $4, $5, $6: their references.
SELECT (SELECT count(*) FROM payment_idem.event_receipts WHERE receipt > $2 AND receipt <= $3 AND outcome = 'applied'),
       (SELECT count(*) FROM payment_idem.payloads WHERE tenant = $1 AND receipt > $2 AND receipt <= $3),
       (SELECT count((SELECT 1 FROM payment_idem.payment_references r
                      WHERE r.scope = $1 AND r.gateway = e.gateway AND r.kind = e.kind AND r.value = e.value
                        AND r.receipt > $2 AND r.receipt <= $3 AND r.state = 'applied'))
        FROM unnest($4::text[], $5::text[], $6::text[]) AS e (gateway, kind, value)),
       (SELECT count(*) FROM payment_idem.transactions WHERE tenant = $1 AND receipt > $2 AND receipt <= $3),
       (SELECT count((SELECT 1 FROM payment_idem.orders o
                      WHERE o.tenant = e.tenant AND o.order_id = e.order_id AND o.status = 'COMPLETED' AND o.version = 1))
        FROM payment_idem.event_receipts e WHERE e.receipt > $2 AND e.receipt <= $3),
       (SELECT count(*) FROM payment_idem.outbox WHERE tenant = $1 AND receipt > $2 AND receipt <= $3)
