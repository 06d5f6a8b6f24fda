-- Public failure reports, kind SEC (B68 and B71 stand in privileges and keys).
\set t1 't.id(''sec'')'
\set t2 't.id(''sec2'')'
SELECT t.tenant('sec') = :t1 AS t1, t.tenant('sec2') = :t2 AS t2;

\echo B65: an event of one tenant names an order of another
SELECT t.order(:t1, 'B65', gateway_order_id => 'GB65');
SELECT t.say(:t2, 'b65_1', t.ev('paid', 'B65', pay => 'pi_b65', id => 'b65_1')) AS by_reference,
       t.say(:t2, 'b65_2', '{"id":"b65_2","type":"paid","gateway_order_id":"GB65","amount":1000,"currency":"usd"}') AS by_gateway_order;
-- To t2 it looks the same as an order that nobody has.
SELECT outcome, reason, http_status, order_id, order_status, transaction_id, exception_id FROM t.ing(:t2, 'b65_5', t.ev('paid', 'B65', pay => 'pi_b65_5', id => 'b65_5'))
UNION ALL
SELECT outcome, reason, http_status, order_id, order_status, transaction_id, exception_id FROM t.ing(:t2, 'b65_3', t.ev('paid', 'nobody', pay => 'pi_b65_3', id => 'b65_3'));
SELECT status, paid_minor, version FROM payment_idem.orders WHERE tenant = :t1;
SELECT * FROM t.counts(:t1);
-- Signed by the other tenant's secret it is not authentic at all.
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'b65_1', t.ev('paid', 'B65', id => 'b65_1'), t.sign(t.ev('paid', 'B65', id => 'b65_1'), t.secret('sec2'))) r;
-- The same references are free for t1, whatever t2's events say.
SELECT t.say(:t2, 'b65_4', t.ev('paid', 'mine', pay => 'pi_b65', id => 'b65_4', more => '"utr":"U65"')), t.order(:t2, 'mine');
SELECT t.say(:t1, 'b65_1', t.ev('paid', 'B65', pay => 'pi_b65', id => 'b65_1', more => '"utr":"U65"'));

\echo B66: test events do not pay live orders; mode and secret belong together
SELECT payment_idem.create_source(:t1, 'test', 'generic', '{"live_mode": false}');
SELECT payment_idem.add_secret(:t1, 'test', 'secret of test mode') IS NOT NULL AS secret;
SELECT t.order(:t1, 'B66_' || n) FROM generate_series(1, 5) n;
-- Not told: the source's own mode holds. Told in another way than true and false: nothing to rely on.
SELECT livemode, t.say(:t1, 'b66_' || n, t.ev('paid', 'B66_' || n, pay => 'pi_b66_' || n, id => 'b66_' || n, more => '"livemode":' || livemode)) AS live_source
FROM (VALUES (1, 'false'), (2, 'true'), (3, NULL), (4, '"false"'), (5, '0')) AS v (n, livemode);
SELECT livemode, t.says(r) AS live_source_test_secret FROM (VALUES ('false'), ('true')) AS v (livemode),
    LATERAL (SELECT t.ev('paid', 'B66_1', pay => 'pi_b66_1', id => 'b66_t', more => '"livemode":' || livemode) AS body) b,
    LATERAL payment_idem.ingest(:t1, 'b66_t', body, t.sign(body, 'secret of test mode')) r;
SELECT livemode, t.say(:t1, 'b66_t' || n, t.ev('paid', 'B66_' || n, pay => 'pi_b66_' || n, id => 'b66_t' || n, more => '"livemode":' || livemode), 'test') AS test_source
FROM (VALUES (4, 'true'), (5, 'false')) AS v (n, livemode);
SELECT client_txn_id, status FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id LIKE 'B66%' ORDER BY 1;

SELECT * FROM payment_idem.check_invariants();
