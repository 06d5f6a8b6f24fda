-- Public failure reports, kind CONFLICT.
\set t1 't.id(''conflict'')'
SELECT t.tenant('conflict') = :t1 AS t1;

\echo B15: the same event id with other bytes
SELECT t.order(:t1, 'O1');
\set b1 '''{"id":"evt_1","api":"2024","type":"paid","order":"O1","amount":1000,"currency":"usd","payment":"pi_1"}'''
\set b2 '''{"id":"evt_1", "payment":"pi_1","currency":"usd","amount":1000,"order":"O1","type":"paid","api":"2025"}'''
SELECT t.say(:t1, 'evt_1', :b1) AS b1;
SELECT t.say(:t1, 'evt_1', :b2) AS b2;
SELECT t.say(:t1, 'evt_1', :b1) AS b1;
SELECT t.say(:t1, NULL, :b2) AS b2;
-- The first digest is kept, the second one is noted once; there is one effect.
SELECT payload_sha256 = sha256(convert_to(:b1, 'UTF8')) AS first_kept FROM payment_idem.event_receipts WHERE tenant = :t1;
SELECT kind, identity, payload_sha256 = sha256(convert_to(:b2, 'UTF8')) AS second, first_sha256 = sha256(convert_to(:b1, 'UTF8')) AS first
FROM payment_idem.anomalies WHERE tenant = :t1;
SELECT * FROM t.counts(:t1);
-- A third body is another anomaly; one that cannot be read does not contradict the id it claims.
SELECT t.say(:t1, 'evt_1', t.ev('paid', 'O1', '1')) AS b3, t.say(:t1, 'evt_1', '{"id":"evt_1","id":"evt_1"}') AS unreadable;
SELECT * FROM t.counts(:t1);
-- Of an event that waits for its order the first body stays the true one.
SELECT t.say(:t1, 'evt_2', t.ev('paid', 'O2', pay => 'pi_2', id => 'evt_2')) AS first,
       t.say(:t1, 'evt_2', t.ev('paid', 'O3', pay => 'pi_2', id => 'evt_2')) AS second;
SELECT t.order(:t1, 'O3') AS o3, t.order(:t1, 'O2') AS o2;

SELECT * FROM payment_idem.check_invariants();
