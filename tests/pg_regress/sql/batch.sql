-- ingest_batch: many deliveries in one call, each answered as if it had come alone, in its turn.
-- tenant 'one' gets the deliveries one by one, tenant 'many' in one call; both must end alike.
SELECT t.tenant('one') AS one, t.tenant('many') AS many \gset

CREATE PROCEDURE t.batch_orders(tenant uuid) LANGUAGE sql AS $$
    SELECT payment_idem.create_order(tenant, 'm1', 'O' || n, 10.00, 'USD', gateway_order_id => CASE n WHEN 5 THEN 'G5' END)
    FROM generate_series(1, 6) AS n;
$$;
CALL t.batch_orders(:'one');
CALL t.batch_orders(:'many');

CREATE TABLE t.deliveries (n int GENERATED ALWAYS AS IDENTITY, event_id text, body text, forged boolean DEFAULT false);
INSERT INTO t.deliveries (event_id, body)
SELECT substring(body FROM '"id":"(\w+)"'), body FROM unnest(ARRAY[
    t.ev('paid', 'O1', id => 'b1', pay => 'p1'),
    t.ev('attempted', 'O2', id => 'b2', pay => NULL),
    t.ev('failed', 'O2', id => 'b3', pay => NULL),
    t.ev('paid', 'O2', id => 'b4', pay => 'p2'),
    t.ev('failed', 'O2', id => 'b5', pay => NULL),                  -- too late
    t.ev('paid', 'O1', id => 'b1', pay => 'p1'),                    -- the same bytes again
    t.ev('paid', 'O1', id => 'b1', pay => 'p1', amt => '1001'),     -- other bytes under a used id
    t.ev('paid', 'O1', id => 'b6', pay => 'p1'),                    -- the same payment
    t.ev('paid', 'O1', id => 'b7', pay => 'p7'),                    -- another payment
    t.ev('paid', 'O3', id => 'b8', pay => 'p1'),                    -- a payment of another order
    t.ev('paid', 'O3', id => 'b9', pay => 'p1'),                    -- ... again
    t.ev('paid', 'O3', id => 'b10', pay => 'p10', amt => '999'),    -- not the amount
    t.ev('paid', 'O3', id => 'b11', pay => 'p10'),                  -- the same payment, now right
    t.ev('paid', 'O4', id => 'b12', pay => 'p12', cur => 'eur'),
    t.ev('paid', 'O9', id => 'b13', pay => 'p13'),                  -- no such order yet
    t.ev('paid', 'O9', id => 'b13', pay => 'p13'),
    t.ev('paid', 'O6', id => 'b14', pay => 'p14', more => '"gateway_order_id":"G5"'), -- two orders
    t.ev('paid', NULL, id => 'b15', pay => 'p15', more => '"gateway_order_id":"G5"'),
    t.ev('ping', 'O6', id => 'b16'),
    t.ev('odd', 'O6', id => 'b17'),
    t.ev('paid', 'O6', id => 'b18', pay => 'p18', more => '"utr":"U18"'),
    t.ev('paid', 'O6', id => 'b19', pay => NULL, more => '"utr":"U18"'),
    '{"id":"b20"', '{"id":"b20"', '[]'
]) AS body;
UPDATE t.deliveries SET event_id = NULL WHERE body IN ('{"id":"b20"', '[]');
INSERT INTO t.deliveries (event_id, body, forged) VALUES
    ('b21', t.ev('paid', 'O4', id => 'b21', pay => 'p21'), true),
    ('other', t.ev('paid', 'O4', id => 'b22', pay => 'p22'), false),
    ('b 23', t.ev('paid', 'O4', id => 'b23', pay => 'p23'), false),
    ('b24', t.ev('paid', 'O4', id => 'b24', pay => 'p24'), false);

CREATE FUNCTION t.sign_for(tenant text, d t.deliveries) RETURNS text LANGUAGE sql AS
    $$SELECT t.sign(body, CASE WHEN forged THEN 'not it at all' ELSE t.secret(tenant) END) FROM (SELECT d.*) AS d$$;

CREATE TABLE t.answers AS
SELECT 'one' AS way, d.n, a.*
FROM (SELECT * FROM t.deliveries ORDER BY n) AS d,
    LATERAL payment_idem.ingest(t.id('one'), d.event_id, d.body, t.sign_for('one', d)) AS a;
INSERT INTO t.answers
SELECT 'many', a.*
FROM (SELECT array_agg(event_id ORDER BY n) AS event_ids, array_agg(body ORDER BY n) AS bodies,
             array_agg(t.sign_for('many', d) ORDER BY n) AS sigs FROM t.deliveries AS d) AS d,
    LATERAL payment_idem.ingest_batch(t.id('many'), event_ids, bodies, sigs) AS a;
SELECT n, left(event_id, 5) AS event, outcome, reason, http_status, order_status, first_outcome,
       transaction_id IS NOT NULL AS booked, exception_id IS NOT NULL AS raised
FROM t.answers WHERE way = 'many' ORDER BY n;

-- Nothing in the answers differs but the numbers, ids and times of the two tenants ...
CREATE VIEW t.comparable AS
SELECT way, n, outcome, reason, http_status, event_id, order_status, payload_sha256, first_outcome,
       client_txn_id, transaction_id IS NOT NULL AS booked, exception_id IS NOT NULL AS raised,
       -- Numbers count up alike.
       dense_rank() OVER (PARTITION BY way ORDER BY coalesce(transaction_id, exception_id)) AS number
FROM t.answers LEFT JOIN payment_idem.orders o USING (order_id);
SELECT * FROM (SELECT n, to_jsonb(c) - 'way' FROM t.comparable c WHERE way = 'one'
               EXCEPT SELECT n, to_jsonb(c) - 'way' FROM t.comparable c WHERE way = 'many') AS only_one_by_one;
-- ... nor in any table.
CREATE FUNCTION t.leaves(tenant uuid) RETURNS SETOF jsonb LANGUAGE sql AS $$
    WITH orders AS (SELECT * FROM payment_idem.orders o WHERE o.tenant = leaves.tenant),
         named AS (SELECT order_id, client_txn_id AS name FROM orders)
    SELECT jsonb_build_object('order', client_txn_id, 'status', status, 'paid', paid_minor, 'seq', ledger_seq, 'outbox', outbox_seq)
    FROM orders
    UNION ALL SELECT jsonb_build_object('event', r.identity, 'kind', r.identity_kind, 'outcome', outcome, 'reason', reason, 'first', first_outcome,
                                        'order', name, 'refs', payment_refs)
    FROM payment_idem.event_receipts r LEFT JOIN named USING (order_id) WHERE r.tenant = leaves.tenant
    UNION ALL SELECT jsonb_build_object('line', l.event_id, 'kind', l.kind, 'seq', l.seq, 'amount', l.amount_minor, 'from', from_status, 'to', to_status,
                                        'order', name)
    FROM payment_idem.transactions l JOIN named USING (order_id)
    UNION ALL SELECT jsonb_build_object('reference', r.kind, 'value', r.value, 'state', r.state, 'order', name, 'event', e.event_id)
    FROM payment_idem.payment_references r JOIN named USING (order_id) JOIN payment_idem.event_receipts e USING (tenant, receipt)
    UNION ALL SELECT jsonb_build_object('exception', x.kind, 'order', name, 'amount', x.amount_minor, 'expected', expected_amount_minor,
                                        'resolution', resolution, 'event', e.identity, 'detail', detail)
    FROM payment_idem.exceptions x LEFT JOIN named USING (order_id)
    JOIN payment_idem.event_receipts e ON e.tenant = x.tenant AND e.receipt = x.exception_id WHERE x.tenant = leaves.tenant
    UNION ALL SELECT jsonb_build_object('outbox', action, 'seq', seq, 'order', name) FROM payment_idem.outbox JOIN named USING (order_id)
    UNION ALL SELECT jsonb_build_object('anomaly', kind, 'identity', identity, 'claimed', claimed_id, 'sha', encode(payload_sha256, 'hex'))
    FROM payment_idem.anomalies a WHERE a.tenant = leaves.tenant
    UNION ALL SELECT jsonb_build_object('evidence', encode(raw_payload, 'hex'), 'order', name)
    FROM payment_idem.payloads p LEFT JOIN named USING (order_id) WHERE p.tenant = leaves.tenant
$$;
SELECT count(*) > 60 AS there_is_something FROM t.leaves(:'many');
(SELECT 'only one by one' AS which, * FROM (SELECT t.leaves(:'one') EXCEPT ALL SELECT t.leaves(:'many')) AS x)
UNION ALL
(SELECT 'only in a batch', * FROM (SELECT t.leaves(:'many') EXCEPT ALL SELECT t.leaves(:'one')) AS x);

-- Redelivered as a batch, everything is known, and nothing changes. The parked event finds its order meanwhile.
SELECT outcome, status FROM payment_idem.create_order(:'many', 'm1', 'O9', 10, 'USD');
CREATE TABLE t.before AS SELECT t.leaves(:'many') AS leaf;
SELECT outcome, first_outcome, count(*)
FROM (SELECT array_agg(body ORDER BY n DESC) AS bodies, array_agg(t.sign_for('many', d) ORDER BY n DESC) AS sigs
      FROM t.deliveries AS d WHERE NOT forged) AS d,
    LATERAL payment_idem.ingest_batch(t.id('many'), NULL, bodies, sigs) AS a
GROUP BY 1, 2 ORDER BY 1, 2;
SELECT leaf FROM t.before EXCEPT ALL SELECT t.leaves(:'many');

-- Bytes, headers, and a parked event that is tried again within a batch.
SELECT t.ev('paid', 'O10', id => 'b30', pay => 'p30') AS b30, t.ev('paid', 'O11', id => 'b31', pay => 'p31') AS b31 \gset
SELECT item, outcome, reason FROM payment_idem.ingest_batch(:'many', NULL, ARRAY[convert_to(:'b30', 'UTF8'), convert_to(:'b31', 'UTF8')], NULL,
    headers => ARRAY[jsonb_build_object('x-signature', t.sign(:'b30', t.secret('many'))), NULL]);
SELECT outcome FROM payment_idem.create_order(:'many', 'm1', 'O10', 10, 'USD');
SELECT item, outcome, reason FROM payment_idem.ingest_batch(:'many', ARRAY[]::text[], ARRAY[]::text[], NULL);

-- What the caller gets wrong.
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('many'), NULL, NULL::text[], NULL)$$);
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('many'), NULL, ARRAY['{}', NULL], NULL)$$);
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('many'), ARRAY['a'], ARRAY['{}', '{}'], NULL)$$);
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('many'), NULL, ARRAY['{}'], ARRAY['a', 'b'])$$);
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('many'), NULL, ARRAY['{}'], NULL, headers => ARRAY['{}', '{}']::jsonb[])$$);
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('many'), NULL, ARRAY['{}'], NULL, headers => ARRAY['[]']::jsonb[])$$);
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('many'), NULL, ARRAY['{}'], NULL, 'nowhere')$$);
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('nobody'), NULL, ARRAY['{}'], NULL)$$);
SELECT t.err($$SELECT * FROM payment_idem.ingest_batch(t.id('many'), NULL, array_fill('{}'::text, ARRAY[10001]), NULL)$$);

SELECT * FROM payment_idem.check_invariants();
