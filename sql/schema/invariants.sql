-- The promises, as questions to the tables: every row that comes back is a promise broken.
-- Written apart from the Rust that keeps them, and plain: whole tables, joined.

CREATE FUNCTION payment_idem.check_invariants()
RETURNS TABLE (invariant text, tenant uuid, subject text, detail text)
LANGUAGE sql STABLE SET search_path = pg_catalog, payment_idem, pg_temp
-- Whole tables: hash joins, whatever the statistics make of it, and no compilation for the cost that this pretends.
SET enable_nestloop = off SET jit = off AS $$
WITH line AS (
    SELECT t.*, ledger_line_hash(t) AS true_hash,
           lag(t.seq, 1, 0::bigint) OVER chain AS seq_before,
           lag(t.hash) OVER chain AS hash_before,
           lag(t.to_status, 1, 'PENDING') OVER chain AS status_before,
           count(*) FILTER (WHERE t.to_status = 'REFUNDED') OVER chain AS refunds_so_far,
           t.to_status = 'COMPLETED' AND t.from_status <> 'COMPLETED' AS completes
    FROM transactions t
    WINDOW chain AS (PARTITION BY t.tenant, t.order_id ORDER BY t.seq)
), chain AS (
    SELECT l.tenant, l.order_id, max(l.seq) AS seq,
           (array_agg(l.hash ORDER BY l.seq DESC))[1] AS head,
           (array_agg(l.to_status ORDER BY l.seq DESC))[1] AS status,
           coalesce(sum(l.amount_minor) FILTER (WHERE l.amount_minor > 0), 0) AS paid_minor,
           coalesce(-sum(l.amount_minor) FILTER (WHERE l.amount_minor < 0), 0) AS refunded_minor
    FROM line l
    GROUP BY l.tenant, l.order_id
), queue AS (
    SELECT q.tenant, q.order_id, count(*) AS rows, count(DISTINCT q.seq) AS seqs, max(q.seq) AS seq
    FROM outbox q
    WHERE q.order_id IS NOT NULL
    GROUP BY q.tenant, q.order_id
)

-- P1: one event, one effect -----------------------------------------------------------------------
SELECT 'P1 one receipt per event', r.tenant, format('source %s', r.source),
       format('receipts %s are one event', string_agg(r.receipt::text, ', ' ORDER BY r.receipt))
FROM event_receipts r
GROUP BY r.tenant, r.source, r.identity HAVING count(*) > 1

UNION ALL
SELECT 'P1 one event per receipt number', r.tenant, format('receipt %s', r.receipt),
       format('%s events have this number', count(*))
FROM event_receipts r
GROUP BY r.tenant, r.receipt HAVING count(*) > 1

UNION ALL
SELECT 'P1 one ledger line per event', l.tenant, format('receipt %s', l.receipt),
       format('%s ledger lines', count(*))
FROM line l
GROUP BY l.tenant, l.receipt HAVING count(*) > 1

UNION ALL
SELECT 'P1 one outbox row per event and action', q.tenant, format('receipt %s', q.receipt),
       format('%s rows of %s', count(*), q.action)
FROM outbox q
GROUP BY q.tenant, q.receipt, q.action HAVING count(*) > 1

UNION ALL
SELECT 'P1 one completion per order', l.tenant, format('order %s', l.order_id),
       format('completed %s times without a refund between', count(*))
FROM line l
WHERE l.completes
GROUP BY l.tenant, l.order_id, l.refunds_so_far HAVING count(*) > 1

-- P2: all of it or nothing ------------------------------------------------------------------------
UNION ALL
SELECT 'P2 applied event has its ledger line', r.tenant, format('receipt %s', r.receipt), 'no ledger line'
FROM event_receipts r
LEFT JOIN line l USING (tenant, receipt)
WHERE r.outcome = 'applied' AND l.receipt IS NULL

UNION ALL
SELECT 'P2 ledger line has its applied event', l.tenant, format('receipt %s', l.receipt),
       format('order %s, line %s: the event is %s', l.order_id, l.seq, coalesce(r.outcome, 'unknown'))
FROM line l
LEFT JOIN event_receipts r USING (tenant, receipt)
WHERE r.outcome IS DISTINCT FROM 'applied'

UNION ALL
SELECT 'P2 ledger line repeats its event', l.tenant, format('receipt %s', l.receipt),
       format('order %s, line %s: order, source, kind, event id, gateway order id or bank reference differs',
              l.order_id, l.seq)
FROM line l
JOIN event_receipts r USING (tenant, receipt)
WHERE (l.order_id, l.source, l.kind, l.event_id, l.gateway_order_id, l.bank_utr)
    IS DISTINCT FROM (r.order_id, r.source, r.kind, r.event_id, r.gateway_order_id, r.bank_utr)

UNION ALL
SELECT 'P2 ledger line has its order', l.tenant, format('order %s', l.order_id),
       format('line %s has no order', l.seq)
FROM line l
LEFT JOIN orders o USING (tenant, order_id)
WHERE o.order_id IS NULL

UNION ALL
SELECT 'P2 outbox row has its applied event', q.tenant, format('receipt %s', q.receipt),
       format('%s for order %s: the event is %s', q.action, q.order_id, coalesce(r.outcome, 'unknown'))
FROM outbox q
LEFT JOIN event_receipts r USING (tenant, receipt)
WHERE r.outcome IS DISTINCT FROM 'applied'
  AND NOT (q.action = 'fetch_status' AND q.order_id IS NULL AND r.first_reason IS NOT DISTINCT FROM 'awaiting_details')

UNION ALL
SELECT 'P7 event without facts has its fetch_status', r.tenant, format('receipt %s', r.receipt),
       format('%s of source %s: no outbox row', r.event_type, r.source)
FROM event_receipts r
LEFT JOIN outbox q ON (q.tenant, q.receipt, q.action) = (r.tenant, r.receipt, 'fetch_status')
WHERE r.outcome = 'parked' AND r.reason = 'awaiting_details' AND q.receipt IS NULL

UNION ALL
SELECT 'P2 outbox row has its ledger line', q.tenant, format('receipt %s', q.receipt),
       format('%s for order %s: no such ledger line', q.action, q.order_id)
FROM outbox q
LEFT JOIN line l USING (tenant, receipt, order_id)
WHERE (l.receipt IS NULL AND q.order_id IS NOT NULL) OR (q.action = 'fulfil_order' AND l.completes IS NOT TRUE)

UNION ALL
SELECT 'P2 completion has its fulfil_order', l.tenant, format('receipt %s', l.receipt),
       format('order %s, line %s: no outbox row', l.order_id, l.seq)
FROM line l
LEFT JOIN outbox q ON (q.tenant, q.receipt, q.order_id, q.action) = (l.tenant, l.receipt, l.order_id, 'fulfil_order')
WHERE l.completes AND q.receipt IS NULL

UNION ALL
SELECT 'P2 event in exception has its exception', r.tenant, format('receipt %s', r.receipt),
       format('%s: no such exception', r.reason)
FROM event_receipts r
LEFT JOIN exceptions e ON (e.tenant, e.exception_id, e.kind, e.source) = (r.tenant, r.receipt, r.reason, r.source)
    AND e.order_id IS NOT DISTINCT FROM r.order_id
WHERE r.outcome = 'exception' AND e.exception_id IS NULL

UNION ALL
SELECT 'P2 exception has its event', e.tenant, format('exception %s', e.exception_id),
       format('%s: the event is %s', e.kind, coalesce(r.outcome, 'unknown'))
FROM exceptions e
LEFT JOIN event_receipts r ON (r.tenant, r.receipt) = (e.tenant, e.exception_id)
WHERE r.outcome IS DISTINCT FROM 'exception'

UNION ALL
SELECT 'P2 exception is found by its references', coalesce(r.tenant, e.tenant),
       format('exception %s', coalesce(r.receipt, e.exception_id)),
       format('%s reference: %s', coalesce(r.kind, e.kind),
              CASE WHEN r.receipt IS NULL THEN 'its event names no such' ELSE 'the exception is not found by it' END)
FROM (SELECT tenant, receipt, ref.key, ref.value FROM event_receipts CROSS JOIN LATERAL jsonb_each_text(payment_refs) AS ref
      WHERE outcome = 'exception') AS r (tenant, receipt, kind, value)
FULL JOIN exception_references e
    ON (e.tenant, e.exception_id, e.kind, e.value) = (r.tenant, r.receipt, r.kind, r.value)
WHERE e.exception_id IS NULL OR r.receipt IS NULL

UNION ALL
SELECT 'P2 reference has its order and event', p.tenant, format('receipt %s', p.receipt),
       format('%s reference of order %s: %s', p.kind, p.order_id,
              CASE WHEN o.order_id IS NULL THEN 'no such order' ELSE 'the event is ' || coalesce(r.outcome, 'unknown') END)
FROM payment_references p
LEFT JOIN orders o USING (tenant, order_id)
LEFT JOIN event_receipts r USING (tenant, receipt)
WHERE o.order_id IS NULL OR coalesce(r.outcome, 'parked') = 'parked' -- who waits for an order holds nothing

UNION ALL
SELECT 'P2 applied reference has its booking', p.tenant, format('receipt %s', p.receipt),
       format('%s reference of order %s: no money is booked for it', p.kind, p.order_id)
FROM payment_references p
LEFT JOIN event_receipts r USING (tenant, receipt)
LEFT JOIN line l ON (l.tenant, l.order_id) = (p.tenant, p.order_id) AND l.amount_minor > 0
    -- Another event of the same payment may bring it after the one that booked.
    AND (l.receipt = p.receipt OR (r.outcome, r.reason) = ('recorded', 'same_payment'))
WHERE p.state = 'applied' AND l.receipt IS NULL

-- P6: money is exact ------------------------------------------------------------------------------
UNION ALL
SELECT 'P6 completed order is paid exactly', o.tenant, format('order %s', o.order_id),
       format('asks %s, paid %s', o.amount_minor, coalesce(c.paid_minor, 0))
FROM orders o
LEFT JOIN chain c USING (tenant, order_id)
WHERE o.status = 'COMPLETED' AND coalesce(c.paid_minor, 0) <> o.amount_minor

UNION ALL
SELECT 'P6 booked in the order''s currency', l.tenant, format('receipt %s', l.receipt),
       format('order %s asks %s, line %s says %s', l.order_id, o.currency, l.seq, l.currency)
FROM line l
JOIN orders o USING (tenant, order_id)
WHERE l.currency IS DISTINCT FROM o.currency

UNION ALL
SELECT 'P6 payment is the order''s amount', l.tenant, format('receipt %s', l.receipt),
       format('order %s asks %s %s, the event says %s %s, line %s books %s', l.order_id, o.amount_minor, o.currency,
              coalesce(r.amount_minor::text, 'nothing'), r.currency, l.seq, l.amount_minor)
FROM line l
JOIN orders o USING (tenant, order_id)
JOIN event_receipts r USING (tenant, receipt)
WHERE l.kind = 'payment_succeeded'
  AND (l.amount_minor, r.amount_minor, r.currency) IS DISTINCT FROM (o.amount_minor, o.amount_minor, o.currency)

UNION ALL
SELECT 'P6 only payments and refunds move money', l.tenant, format('receipt %s', l.receipt),
       format('order %s, line %s: %s books %s', l.order_id, l.seq, l.kind, l.amount_minor)
FROM line l
WHERE l.kind IN ('payment_attempted', 'payment_authorized', 'payment_failed', 'payment_expired') AND l.amount_minor <> 0

UNION ALL
SELECT 'P6 payment keeps its references', r.tenant, format('receipt %s', r.receipt),
       format('its %s reference is not kept for order %s', ref.kind, r.order_id)
FROM event_receipts r
JOIN orders o USING (tenant, order_id)
CROSS JOIN LATERAL (
    SELECT key, value FROM jsonb_each_text(r.payment_refs)
    UNION ALL
    SELECT 'idempotency_hash', encode(sha256(chain_field(convert_to(o.client_txn_id, 'UTF8'))
                                             || chain_field(convert_to(r.bank_utr, 'UTF8'))
                                             || chain_field(int8send(r.amount_minor))), 'hex')
    WHERE r.bank_utr IS NOT NULL
) AS ref (kind, value)
LEFT JOIN payment_references p
    ON (p.tenant, p.kind, p.value, p.order_id, p.state) = (r.tenant, ref.kind, ref.value, r.order_id, 'applied')
WHERE r.outcome = 'applied' AND r.kind = 'payment_succeeded' AND p.state IS NULL

UNION ALL
SELECT 'P6 gateway order id names one order', coalesce(o.tenant, k.tenant),
       format('order %s', coalesce(o.order_id, k.order_id)), 'orders and order_keys disagree'
FROM (SELECT * FROM orders WHERE gateway_order_id IS NOT NULL) o
FULL JOIN (SELECT * FROM order_keys WHERE kind = 'gateway_order' AND order_id IS NOT NULL) k
    ON (k.tenant, k.value, k.order_id) = (o.tenant, o.gateway_order_id, o.order_id)
WHERE o.order_id IS NULL OR k.order_id IS NULL

-- P7: nothing waits for what is there -------------------------------------------------------------
UNION ALL
SELECT 'P7 parked event has no order', r.tenant, format('receipt %s', r.receipt),
       format('order %s is there', o.order_id)
FROM event_receipts r
JOIN sources s USING (tenant, source)
CROSS JOIN LATERAL (SELECT order_id FROM orders
                    WHERE (tenant, client_txn_id) = (r.tenant, r.order_reference)
                      AND merchant_id = coalesce(s.merchant_id, r.merchant_id, merchant_id) -- the source's goes first
                    UNION
                    SELECT order_id FROM order_keys
                    WHERE (tenant, kind, value) = (r.tenant, 'gateway_order', r.gateway_order_id)
                      AND order_id IS NOT NULL) AS o
WHERE r.outcome = 'parked' AND r.reason = 'order_not_found'

-- P9: the chain -----------------------------------------------------------------------------------
UNION ALL
SELECT 'P9 lines count from 1 without a gap', l.tenant, format('order %s', l.order_id),
       format('line %s follows line %s', l.seq, l.seq_before)
FROM line l
WHERE l.seq IS DISTINCT FROM l.seq_before + 1

UNION ALL
SELECT 'P9 line hashes to its hash', l.tenant, format('order %s', l.order_id), format('line %s', l.seq)
FROM line l
WHERE l.hash IS DISTINCT FROM l.true_hash

UNION ALL
SELECT 'P9 line names the hash before', l.tenant, format('order %s', l.order_id), format('line %s', l.seq)
FROM line l
WHERE l.prev_hash IS DISTINCT FROM l.hash_before

UNION ALL
SELECT 'P9 line starts where the one before ended', l.tenant, format('order %s', l.order_id),
       format('line %s starts at %s after %s', l.seq, l.from_status, l.status_before)
FROM line l
WHERE l.from_status IS DISTINCT FROM l.status_before

UNION ALL
SELECT 'P9 order keeps the head of its chain', o.tenant, format('order %s', o.order_id),
       format('order says line %s, ledger ends with line %s', o.ledger_seq, coalesce(c.seq, 0))
FROM orders o
LEFT JOIN chain c USING (tenant, order_id)
WHERE o.ledger_seq <> coalesce(c.seq, 0) OR o.ledger_head IS DISTINCT FROM c.head

UNION ALL
SELECT 'P9 order stands where its ledger ends', o.tenant, format('order %s', o.order_id),
       format('order says %s, ledger ends at %s', o.status, coalesce(c.status, 'PENDING'))
FROM orders o
LEFT JOIN chain c USING (tenant, order_id)
WHERE o.status <> coalesce(c.status, 'PENDING')

-- Sums --------------------------------------------------------------------------------------------
UNION ALL
SELECT 'sums: order adds up its ledger', o.tenant, format('order %s', o.order_id),
       format('order says paid %s and refunded %s, ledger %s and %s', o.paid_minor, o.refunded_minor,
              coalesce(c.paid_minor, 0), coalesce(c.refunded_minor, 0))
FROM orders o
LEFT JOIN chain c USING (tenant, order_id)
WHERE (o.paid_minor, o.refunded_minor) <> (coalesce(c.paid_minor, 0), coalesce(c.refunded_minor, 0))

UNION ALL
SELECT 'sums: order counts its outbox', o.tenant, format('order %s', o.order_id),
       format('order says %s, outbox has %s rows up to %s', o.outbox_seq, coalesce(q.rows, 0), coalesce(q.seq, 0))
FROM orders o
LEFT JOIN queue q USING (tenant, order_id)
WHERE (o.outbox_seq, o.outbox_seq, o.outbox_seq) <> (coalesce(q.rows, 0), coalesce(q.seqs, 0), coalesce(q.seq, 0))

ORDER BY 1, 2, 3, 4
$$;
COMMENT ON FUNCTION payment_idem.check_invariants() IS
    'Every promise that the tables alone can show broken, with its subject; no row means healthy. Reads whole tables, in one snapshot.';
