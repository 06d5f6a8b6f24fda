-- Public failure reports, kind OUTBOX, as far as claim, ack and nack reach in one session.
-- Tests before this one left rows: everything here is claimed for one tenant.
\set t1 't.id(''outbox'')'
SELECT t.tenant('outbox') = :t1 AS t1;
CREATE FUNCTION pg_temp.pay(prefix text, n int) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(says) FROM (SELECT t.order(t.id('outbox'), prefix || i),
        t.say(t.id('outbox'), prefix || i, t.ev('paid', prefix || i, pay => 'pi_' || prefix || i, id => prefix || i)) AS says
        FROM generate_series(1, n) i) v WHERE says = 'applied 200 COMPLETED'
$$;

\echo B85: no message is claimed twice; a claim that is rolled back was none
SELECT pg_temp.pay('B85_', 20);
CREATE TEMP TABLE claimed AS SELECT 'w1' AS who, * FROM payment_idem.claim('w1', 7, tenant => :t1);
INSERT INTO claimed SELECT 'w2', * FROM payment_idem.claim('w2', 7, tenant => :t1);
INSERT INTO claimed SELECT 'w3', * FROM payment_idem.claim('w3', 7, tenant => :t1);
INSERT INTO claimed SELECT 'w4', * FROM payment_idem.claim('w4', 7, tenant => :t1);
SELECT who, count(*), count(DISTINCT lease_token) AS tokens FROM claimed GROUP BY who ORDER BY who;
SELECT count(DISTINCT message_id) AS messages, count(DISTINCT lease_token) AS tokens FROM claimed;
-- The oldest come first, and a message says all that a worker needs.
SELECT bool_and(right(client_txn_id, -4)::int BETWEEN 1 AND 7) AS oldest_first FROM claimed WHERE who = 'w1';
SELECT action, seq, source, event_id, kind, client_txn_id, merchant_id, c.amount_minor, c.currency, attempts, c.tenant_id = :t1 AS tenant,
       o.order_id = c.order_id AS ord, message_id = payment_idem.message_id(:t1, 'default', event_id, action) AS derived,
       lease_until > clock_timestamp() AS leased, c.created_at <= now() AS created
FROM claimed c JOIN payment_idem.orders o USING (client_txn_id, merchant_id) WHERE o.tenant = :t1 AND client_txn_id = 'B85_1';
-- A worker that does not know whether its ack arrived may send it again; a nack comes too late then.
SELECT who, payment_idem.ack(lease_token) AS ack, payment_idem.ack(lease_token) AS again, payment_idem.nack(lease_token) AS nack FROM claimed WHERE client_txn_id IN ('B85_1', 'B85_8') ORDER BY who;
SELECT count(*) AS delivered FROM payment_idem.outbox WHERE tenant = :t1 AND delivered_at IS NOT NULL;
SELECT payment_idem.ack(gen_random_uuid()) AS nobody_s, payment_idem.nack(gen_random_uuid()) AS nobody_s;
SELECT count(*) FILTER (WHERE payment_idem.ack(lease_token)) AS acknowledged FROM claimed WHERE client_txn_id NOT IN ('B85_1', 'B85_8');
SELECT pg_temp.pay('B85_r', 1);
BEGIN;
SELECT lease_token AS lost, attempts FROM payment_idem.claim('w1', tenant => :t1) \gset
SELECT :attempts AS attempts;
ROLLBACK;
SELECT payment_idem.ack(:'lost') AS of_a_claim_rolled_back;
SELECT attempts, client_txn_id, payment_idem.ack(lease_token) FROM payment_idem.claim('w2', tenant => :t1);
-- By action.
SELECT pg_temp.pay('B85_a', 1);
SELECT count(*) AS other_action FROM payment_idem.claim('w1', actions => '{send_mail}', tenant => :t1);
SELECT action, payment_idem.ack(lease_token) FROM payment_idem.claim('w1', actions => '{send_mail,fulfil_order}', tenant => :t1);

\echo B87: a worker whose lease ran out has no say any more
SELECT pg_temp.pay('B87', 1);
SELECT lease_token AS w1, message_id AS m1, attempts AS a1 FROM payment_idem.claim('w1', lease => '1 second', tenant => :t1) \gset
SELECT pg_sleep(1.1);
SELECT lease_token AS w2, message_id AS m2, attempts AS a2 FROM payment_idem.claim('w2', tenant => :t1) \gset
SELECT :'m1' = :'m2' AS same_message, :'w1' <> :'w2' AS new_lease, :a1 AS first_attempt, :a2 AS second_attempt;
SELECT payment_idem.ack(:'w1') AS late_ack, payment_idem.nack(:'w1', 'late') AS late_nack;
SELECT worker, attempts, last_error, delivered_at FROM payment_idem.outbox WHERE lease_token = :'w2';
SELECT count(*) AS nothing_to_claim FROM payment_idem.claim('w3', tenant => :t1);
SELECT payment_idem.ack(:'w2') AS ack;
SELECT attempts, delivered_at IS NOT NULL AS delivered FROM payment_idem.outbox q JOIN payment_idem.orders USING (tenant, order_id)
WHERE q.tenant = :t1 AND client_txn_id = 'B871';

\echo B89: a lease begins when it is given, not when the transaction began
SELECT pg_temp.pay('B89', 1);
BEGIN;
SELECT pg_sleep(0.5);
SELECT lease_until - transaction_timestamp() >= interval '60.5 seconds' AS counts_from_the_claim,
       lease_until <= clock_timestamp() + interval '60 seconds' AS not_longer
FROM payment_idem.claim('w1', lease => '60 seconds', tenant => :t1);
SELECT payment_idem.nack(lease_token, 'again', '30 seconds') FROM payment_idem.outbox WHERE tenant = :t1 AND delivered_at IS NULL;
SELECT available_at - transaction_timestamp() >= interval '30.5 seconds' AS counts_from_the_nack FROM payment_idem.outbox
WHERE tenant = :t1 AND delivered_at IS NULL;
COMMIT;
SELECT count(*) AS not_due_yet FROM payment_idem.claim('w1', tenant => :t1);
SELECT last_error, lease_token, worker, attempts FROM payment_idem.outbox WHERE tenant = :t1 AND delivered_at IS NULL;
UPDATE payment_idem.outbox SET available_at = now() WHERE tenant = :t1 AND delivered_at IS NULL;
SELECT attempts, payment_idem.ack(lease_token) FROM payment_idem.claim('w1', tenant => :t1);

\echo B91: leases and back-offs are the same in every time zone
SELECT pg_temp.pay('B91_', 3);
CREATE FUNCTION pg_temp.round(zone text, OUT lease_s int, OUT back_off_s int) LANGUAGE plpgsql AS $$
DECLARE
    token uuid; ends_at timestamptz;
BEGIN
    PERFORM set_config('TimeZone', zone, true);
    SELECT c.lease_token, c.lease_until INTO token, ends_at FROM payment_idem.claim('w', 1, tenant => t.id('outbox')) c;
    lease_s := ceil(extract(epoch FROM ends_at - clock_timestamp()) / 10) * 10; -- 10 s are enough for a slow machine
    PERFORM payment_idem.nack(token, 'no', '60 seconds');
    SELECT ceil(extract(epoch FROM max(available_at) - clock_timestamp()) / 10) * 10 INTO back_off_s
    FROM payment_idem.outbox o WHERE o.tenant = t.id('outbox') AND delivered_at IS NULL AND last_error = 'no';
END $$;
SELECT zone, r.* FROM (VALUES ('UTC'), ('America/New_York'), ('Asia/Kolkata')) AS v (zone), LATERAL pg_temp.round(v.zone) r;
-- Without a back-off of the worker's own there is one, and it is bounded however often it failed.
UPDATE payment_idem.outbox SET available_at = now() WHERE tenant = :t1 AND delivered_at IS NULL;
SELECT payment_idem.nack(lease_token) FROM payment_idem.claim('w', 1, tenant => :t1);
SELECT count(*) AS backed_off FROM payment_idem.outbox WHERE tenant = :t1 AND delivered_at IS NULL AND available_at > clock_timestamp();
UPDATE payment_idem.outbox SET available_at = now(), attempts = 1000 WHERE tenant = :t1 AND delivered_at IS NULL;
SELECT payment_idem.nack(lease_token) FROM payment_idem.claim('w', tenant => :t1);
SELECT count(*) AS bounded FROM payment_idem.outbox WHERE tenant = :t1 AND delivered_at IS NULL
   AND available_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 day';
-- B123: a counter at its end does not stop the queue.
UPDATE payment_idem.outbox SET available_at = now(), attempts = 2147483647 WHERE tenant = :t1 AND delivered_at IS NULL;
SELECT attempts, payment_idem.ack(lease_token) FROM payment_idem.claim('w', tenant => :t1);
-- An error is kept as far as it helps, whatever a worker says.
SELECT pg_temp.pay('last', 1);
SELECT payment_idem.nack(lease_token, repeat('é', 100000), '0 seconds') FROM payment_idem.claim('w', tenant => :t1);
SELECT octet_length(last_error) BETWEEN 100 AND 10000 AS cut FROM payment_idem.outbox WHERE tenant = :t1 AND delivered_at IS NULL;
SELECT payment_idem.ack(lease_token) FROM payment_idem.claim('w', tenant => :t1);

SELECT * FROM payment_idem.check_invariants();
