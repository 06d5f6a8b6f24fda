-- Public failure reports, kind STATE, as far as they need neither refunds nor alerts.
\set t1 't.id(''state'')'
SELECT t.tenant('state') = :t1 AS t1;

\echo B54: the payment arrives before the order exists
SELECT t.say(:t1, 'b54', t.ev('paid', 'B54', pay => 'pi_b54', id => 'b54')) AS no_order_yet;
SELECT first_outcome, outcome, reason, processed_at FROM payment_idem.event_receipts WHERE tenant = :t1 AND identity = 'b54';
SELECT t.order(:t1, 'B54') AS order_made;
SELECT t.say(:t1, 'b54', t.ev('paid', 'B54', pay => 'pi_b54', id => 'b54')) AS redelivered;
SELECT receipts, ledger, outbox FROM t.counts(:t1);
-- An order that came past create_order, as an import brings it: the redelivery is first tried again, then a duplicate.
SELECT t.say(:t1, 'b54_2', t.ev('paid', 'B54_2', pay => 'pi_b54_2', id => 'b54_2')) AS no_order_yet;
INSERT INTO payment_idem.orders (tenant, order_id, merchant_id, client_txn_id, amount_minor, currency, created_at, updated_at)
VALUES (:t1, '00000000-0000-7000-8000-0000000000b5', 'm1', 'B54_2', 1000, 'USD', now(), now());
SELECT outcome, reason, http_status, order_status, first_outcome, transaction_id IS NOT NULL AS booked
FROM t.ing(:t1, 'b54_2', t.ev('paid', 'B54_2', pay => 'pi_b54_2', id => 'b54_2'));
SELECT outcome, reason, http_status, order_status, first_outcome, transaction_id IS NOT NULL AS booked
FROM t.ing(:t1, 'b54_2', t.ev('paid', 'B54_2', pay => 'pi_b54_2', id => 'b54_2'));
SELECT receipts, ledger, outbox FROM t.counts(:t1);

\echo B56: a late failure of an earlier attempt does not unpay
SELECT t.order(:t1, 'B56'), t.order(:t1, 'B56_2');
SELECT n, t.say(:t1, 'b56_' || n, t.ev(type, 'B56', pay => pay, id => 'b56_' || n)) FROM (VALUES
    (1, 'paid', 'pi_2'), (2, 'failed', 'pi_1'), (3, 'failed', 'pi_2'), (4, 'expired', 'pi_1'), (5, 'attempted', 'pi_3')) AS v (n, type, pay);
SELECT n, t.say(:t1, 'b56_2_' || n, t.ev(type, 'B56_2', pay => pay, id => 'b56_2_' || n)) FROM (VALUES
    (1, 'failed', 'pi_4'), (2, 'paid', 'pi_5'), (1, 'failed', 'pi_4')) AS v (n, type, pay);

\echo P8: every order of delivery ends in the same state
-- All 24 orders of four events, each for an order of its own.
WITH RECURSIVE permutation (events) AS (
    SELECT ARRAY[]::text[]
    UNION ALL
    SELECT events || e FROM permutation, unnest(ARRAY['attempted', 'failed', 'expired', 'paid']) e WHERE e <> ALL (events)
)
SELECT 'P8_' || row_number() OVER (ORDER BY events) AS ord, events INTO TEMP TABLE runs FROM permutation WHERE cardinality(events) = 4;
SELECT count(t.order(:t1, ord)) AS orders FROM runs;
SELECT count(t.say(:t1, ord || '_' || event, t.ev(event, ord, pay => 'pi_' || ord, id => ord || '_' || event))) AS events
FROM runs, unnest(events) AS event;
SELECT status, paid_minor, outbox_seq, count(*) FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id LIKE 'P8\_%' GROUP BY 1, 2, 3;
-- The same with the order made last.
SELECT count(t.say(:t1, ord || '_late_' || event, t.ev(event, ord || '_late', pay => 'pi_late_' || ord, id => ord || '_late_' || event))) AS events
FROM runs, unnest(events) AS event;
SELECT t.order(:t1, ord || '_late') AS answer, count(*) FROM runs GROUP BY 1;

\echo B58: a payment after the order expired
-- The row wants an exception; in the design, as in the seed, EXPIRED to COMPLETED is an edge, and a tenant that does
-- not want late money drops it.
SELECT t.order(:t1, 'B58');
SELECT t.say(:t1, 'b58_1', t.ev('expired', 'B58', pay => 'pi_b58', id => 'b58_1')) AS expired,
       t.say(:t1, 'b58_2', t.ev('paid', 'B58', pay => 'pi_b58', id => 'b58_2')) AS paid;

\echo B62: events for orders that will never exist
SELECT n, t.say(:t1, 'b62', t.ev('paid', 'ZZ', pay => 'pi_zz', id => 'b62')) FROM generate_series(1, 8) n;
SELECT says, count(*) FROM (SELECT t.say(:t1, 'b62_' || n, t.ev('paid', 'ZZ' || n, pay => 'pi_zz' || n, id => 'b62_' || n)) AS says
                            FROM generate_series(1, 200) n) AS v GROUP BY says;
SELECT says, count(*) FROM (SELECT t.say(:t1, 'b62_' || n, t.ev('paid', 'ZZ' || n, pay => 'pi_zz' || n, id => 'b62_' || n)) AS says
                            FROM generate_series(1, 200) n) AS v GROUP BY says;
SELECT count(*) AS listed FROM payment_idem.event_receipts WHERE tenant = :t1 AND outcome = 'parked' AND order_reference LIKE 'ZZ%';
SELECT exceptions, anomalies FROM t.counts(:t1);

SELECT * FROM payment_idem.check_invariants();
