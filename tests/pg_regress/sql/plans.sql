-- The hot path uses its indexes from the first event of a fresh install on: a plan that is made while
-- the tables are empty, and kept, must not be a sequential scan for the rest of the session.
\set t1 't.id(''plans'')'
SELECT t.tenant('plans') = :t1 AS tenant;
SELECT count(*) AS receipts FROM payment_idem.event_receipts;
-- The worst that a planner can be told: statistics that say "empty".
ANALYZE;

-- Where this transaction read a hot table from end to end, or more of its rows than its deliveries had a use for: no
-- block below makes more than 150, and an index that fits in its first column only reads thousands.
CREATE VIEW t.scans AS
SELECT relname FROM pg_stat_xact_all_tables
WHERE schemaname = 'payment_idem' AND (seq_scan > 0 OR idx_tup_fetch > 150 * 6)
  AND relname ~ '^(event_receipts|orders|order_keys|payment_references|outbox|exceptions|exception_references|anomalies|transactions|payloads)';
-- A delivery, without a look into the tables by the test itself.
CREATE FUNCTION t.deliver(id text, body text) RETURNS text LANGUAGE sql AS $$
    SELECT t.says(r) FROM payment_idem.ingest(t.id('plans'), id, body, t.sign(body, t.secret('plans'))) r
$$;
-- Raises unless each of n rounds of a statement gives the answer; $1 in it is the round.
CREATE FUNCTION t.rounds(n int, answer text, statement text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    got text;
BEGIN
    FOR i IN 1 .. n LOOP
        EXECUTE statement INTO got USING i;
        ASSERT got = answer, format('round %s: %s', i, got);
    END LOOP;
END $$;

-- A backend that has planned nothing yet.
\connect -
BEGIN;
SELECT t.rounds(30, 'created PENDING', $$SELECT t.order(t.id('plans'), 'O' || $1, gateway_order_id => 'G' || $1)$$);
SELECT t.rounds(30, 'applied 200 COMPLETED', $$SELECT t.deliver('evt_' || $1, t.ev('paid', 'O' || $1, pay => 'pi_' || $1,
    id => 'evt_' || $1, more => format('"utr":"U%s","gateway_order_id":"G%s"', $1, $1)))$$);
SELECT t.rounds(30, 'duplicate of applied 200 COMPLETED', $$SELECT t.deliver('evt_' || $1, t.ev('paid', 'O' || $1, pay => 'pi_' || $1,
    id => 'evt_' || $1, more => format('"utr":"U%s","gateway_order_id":"G%s"', $1, $1)))$$);
SELECT t.rounds(30, 'recorded/same_payment 200 COMPLETED', $$SELECT t.deliver('again_' || $1, t.ev('captured', 'O' || $1, pay => 'pi_' || $1,
    id => 'again_' || $1))$$);
SELECT relname AS reads_too_much FROM t.scans ORDER BY relname;
SELECT pg_stat_force_next_flush(); -- the next transaction counts from zero
COMMIT;
-- Parked first, the order later, by either reference.
BEGIN;
SELECT t.rounds(30, 'parked/order_not_found 200', $$SELECT t.deliver('early_' || $1, t.ev('paid', 'P' || $1, pay => 'pp_' || $1, id => 'early_' || $1))$$);
SELECT t.rounds(30, 'duplicate of parked/order_not_found 200', $$SELECT t.deliver('early_' || $1, t.ev('paid', 'P' || $1, pay => 'pp_' || $1, id => 'early_' || $1))$$);
SELECT t.rounds(30, 'created COMPLETED', $$SELECT t.order(t.id('plans'), 'P' || $1, gateway_order_id => 'GP' || $1)$$);
SELECT relname AS reads_too_much FROM t.scans ORDER BY relname;
SELECT pg_stat_force_next_flush(); -- the next transaction counts from zero
COMMIT;
-- What goes wrong in business.
BEGIN;
SELECT t.rounds(30, 'exception/second_payment 200 COMPLETED', $$SELECT t.deliver('second_' || $1, t.ev('paid', 'O' || $1, pay => 'ps_' || $1, id => 'second_' || $1))$$);
SELECT t.rounds(30, 'created PENDING', $$SELECT t.order(t.id('plans'), 'W' || $1)$$);
SELECT t.rounds(30, 'exception/amount_mismatch 200 PENDING', $$SELECT t.deliver('wrong_' || $1, t.ev('paid', 'W' || $1, '1', pay => 'pw_' || $1, id => 'wrong_' || $1))$$);
SELECT t.rounds(30, 'exception/reference_reused 200 PENDING', $$SELECT t.deliver('reused_' || $1, t.ev('paid', 'W' || $1, pay => 'pi_' || $1, id => 'reused_' || $1))$$);
SELECT t.rounds(30, 'digest_conflict 200 COMPLETED', $$SELECT t.deliver('evt_' || $1, t.ev('paid', 'O' || $1, id => 'evt_' || $1))$$);
SELECT relname AS reads_too_much FROM t.scans ORDER BY relname;
SELECT pg_stat_force_next_flush(); -- the next transaction counts from zero
COMMIT;
-- Many exceptions about one order: each new one is looked for among all of them.
BEGIN;
SELECT t.rounds(1, 'created PENDING', $$SELECT t.order(t.id('plans'), 'M' || $1)$$);
SELECT t.rounds(30, 'exception/reference_reused 200 PENDING', $$SELECT t.deliver('m_' || $1, t.ev('paid', 'M1', pay => 'pi_' || $1,
    id => 'm_' || $1, more => format('"utr":"M%s"', $1)))$$);
SELECT t.rounds(100, 'exception/reference_mismatch 200 COMPLETED', $$SELECT t.deliver('n_' || $1, t.ev('paid', 'none', pay => 'pn_' || $1,
    id => 'n_' || $1, more => '"gateway_order_id":"G1"'))$$);
SELECT relname AS reads_too_much FROM t.scans ORDER BY relname;
SELECT pg_stat_force_next_flush(); -- the next transaction counts from zero
COMMIT;
-- Workers.
BEGIN;
SELECT t.rounds(20, '1', $$SELECT count(*) FROM payment_idem.claim('w', 1) WHERE $1 > 0$$);
SELECT t.rounds(20, 'true', $$SELECT payment_idem.ack(lease_token) FROM payment_idem.claim('w', 1) WHERE $1 > 0$$);
SELECT t.rounds(10, 'true', $$SELECT payment_idem.nack(lease_token, 'no') FROM payment_idem.claim('w', 1, actions => '{fulfil_order}', tenant => t.id('plans')) WHERE $1 > 0$$);
SELECT relname AS reads_too_much FROM t.scans ORDER BY relname;
SELECT pg_stat_force_next_flush(); -- the next transaction counts from zero
COMMIT;
-- The measure measures.
BEGIN;
SELECT count(*) > 0 AS looked FROM payment_idem.orders WHERE amount_minor > 0;
SELECT relname AS reads_too_much FROM t.scans ORDER BY relname;
SELECT pg_stat_force_next_flush(); -- the next transaction counts from zero
COMMIT;

SELECT * FROM payment_idem.check_invariants();
