-- Public failure reports, kind TX, those that one session can show.
\set t1 't.id(''tx'')'
SELECT t.tenant('tx') = :t1 AS t1;
SELECT pg_postmaster_start_time() AS started, pg_backend_pid() AS pid \gset
CREATE FUNCTION pg_temp.pay(name text) RETURNS text LANGUAGE sql AS $$
    SELECT t.say(t.id('tx'), name, t.ev('paid', upper(name), pay => 'pi_' || name, id => name))
$$;

\echo B81: the caller may catch an error within the call, and nothing is left behind
SELECT t.order(:t1, name) FROM unnest(ARRAY['B81_1', 'B81_2', 'B81_3', 'B81_4', 'B81_5', 'B81_6']) name;
CREATE FUNCTION t.complain() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN RAISE EXCEPTION 'a trigger of the user' USING ERRCODE = 'P0081', DETAIL = 'its detail', HINT = 'its hint'; END$$;
-- A trigger that raises.
CREATE TRIGGER complain BEFORE UPDATE ON payment_idem.orders FOR EACH ROW WHEN (NEW.client_txn_id = 'B81_1') EXECUTE FUNCTION t.complain();
BEGIN;
SELECT t.err($$SELECT pg_temp.pay('b81_1')$$);
SELECT pg_temp.pay('b81_2');
COMMIT;
DROP TRIGGER complain ON payment_idem.orders;
-- A CHECK of the user that fails.
ALTER TABLE payment_idem.orders ADD CONSTRAINT users_own CHECK (client_txn_id <> 'B81_3' OR paid_minor = 0);
BEGIN;
SELECT t.breaks($$SELECT pg_temp.pay('b81_3')$$);
SELECT pg_temp.pay('b81_4');
COMMIT;
ALTER TABLE payment_idem.orders DROP CONSTRAINT users_own;
-- A deferred constraint that fails at COMMIT takes everything of the transaction with it.
CREATE CONSTRAINT TRIGGER complain AFTER UPDATE ON payment_idem.orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.client_txn_id = 'B81_5') EXECUTE FUNCTION t.complain();
\set VERBOSITY terse
BEGIN;
SELECT pg_temp.pay('b81_5');
SELECT pg_temp.pay('b81_6');
COMMIT;
\set VERBOSITY default
DROP TRIGGER complain ON payment_idem.orders;
SELECT client_txn_id, status, ledger_seq FROM payment_idem.orders WHERE tenant = :t1 ORDER BY 1;
SELECT receipts, ledger, outbox FROM t.counts(:t1);
-- Then each of them is still new.
SELECT name, pg_temp.pay(name) FROM unnest(ARRAY['b81_1', 'b81_3', 'b81_5', 'b81_6']) name;
-- A trigger that suppresses a write does not make half an event: nothing is recorded.
SELECT t.order(:t1, 'B81_7');
CREATE FUNCTION t.suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER suppress BEFORE UPDATE ON payment_idem.orders FOR EACH ROW EXECUTE FUNCTION t.suppress();
SELECT split_part(t.err($$SELECT pg_temp.pay('b81_7')$$), '|', 1) AS orders;
DROP TRIGGER suppress ON payment_idem.orders;
CREATE TRIGGER suppress BEFORE INSERT ON payment_idem.outbox FOR EACH ROW EXECUTE FUNCTION t.suppress();
SELECT split_part(t.err($$SELECT pg_temp.pay('b81_7')$$), '|', 1) AS outbox;
DROP TRIGGER suppress ON payment_idem.outbox;
CREATE TRIGGER suppress BEFORE INSERT ON payment_idem.transactions FOR EACH ROW EXECUTE FUNCTION t.suppress();
SELECT split_part(t.err($$SELECT pg_temp.pay('b81_7')$$), '|', 1) AS transactions;
DROP TRIGGER suppress ON payment_idem.transactions;
SELECT pg_temp.pay('b81_7');
-- Savepoints: what is rolled back is new again, what is kept is known.
SELECT t.order(:t1, 'B81_8'), t.order(:t1, 'B81_9');
BEGIN;
SELECT pg_temp.pay('b81_8');
SAVEPOINT s;
SELECT pg_temp.pay('b81_9'), pg_temp.pay('b81_8');
ROLLBACK TO s;
SELECT pg_temp.pay('b81_9'), pg_temp.pay('b81_8');
COMMIT;
-- Cancelled by the caller's own limit: the SQLSTATE of the moment is passed on.
SELECT t.order(:t1, 'B81_10');
CREATE FUNCTION t.dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NEW; END';
CREATE TRIGGER dawdle BEFORE UPDATE ON payment_idem.orders FOR EACH ROW EXECUTE FUNCTION t.dawdle();
BEGIN;
SET LOCAL statement_timeout = '100ms';
\set VERBOSITY sqlstate
SELECT pg_temp.pay('b81_10');
\set VERBOSITY default
ROLLBACK;
DROP TRIGGER dawdle ON payment_idem.orders;
SELECT pg_temp.pay('b81_10');
-- In a transaction that may not write, a known event is answered, and a new one is refused cleanly.
SELECT t.order(:t1, 'B81_11');
BEGIN READ ONLY;
SELECT pg_temp.pay('b81_10');
SELECT split_part(t.err($$SELECT pg_temp.pay('b81_11')$$), '|', 1) AS code;
COMMIT;

\echo B82: no bytes crash the backend
SELECT t.tenant('tx bytes') IS NOT NULL AS tenant;
-- Bytes that follow from their number alone, so that every run is the same; signed, so that they are read.
CREATE FUNCTION pg_temp.noise(n int) RETURNS bytea LANGUAGE sql AS $$
    SELECT substring(string_agg(sha256(convert_to(n || ' ' || i, 'UTF8')), ''::bytea ORDER BY i) FOR 1 + n * 7 % 600) FROM generate_series(1, 20) i
$$;
SELECT says, count(*) FROM (SELECT t.say(t.id('tx bytes'), NULL, pg_temp.noise(n)) AS says FROM generate_series(1, 1000) n) v GROUP BY says;
-- A true event with one byte of it replaced, at every place and by several bytes: never a crash, never another answer
-- than those documented, and never the money of another amount.
SELECT t.order(t.id('tx bytes'), 'B82');
CREATE TEMP TABLE mutated AS
SELECT place, byte, t.say(t.id('tx bytes'), NULL, set_byte(convert_to(t.ev('failed', 'B82', pay => 'pi_b82', id => 'b82'), 'UTF8'), place, byte)) AS says
FROM generate_series(0, length(t.ev('failed', 'B82', pay => 'pi_b82', id => 'b82')) - 1) AS place,
     unnest(ARRAY[0, 9, 34, 44, 48, 92, 125, 128, 255]) AS byte;
SELECT DISTINCT says AS not_expected FROM mutated WHERE split_part(regexp_replace(says, '^duplicate of ', ''), ' ', 1) NOT IN (
    'applied', 'recorded/already_in_state', 'recorded/unmapped_type', 'recorded/informational', 'parked/order_not_found',
    'exception/payload_unreadable', 'digest_conflict');
SELECT count(*) > 300 AS many, count(DISTINCT says) > 3 AS of_many_sorts FROM mutated;
SELECT paid_minor FROM payment_idem.orders WHERE tenant = t.id('tx bytes');
-- Cut off anywhere.
SELECT says, count(*) FROM (SELECT t.say(t.id('tx bytes'), NULL, left(t.ev('paid', 'B82', pay => 'pi_b82', id => 'b82'), n)) AS says
                            FROM generate_series(1, length(t.ev('paid', 'B82', pay => 'pi_b82', id => 'b82')) - 1) n) v GROUP BY says;
-- The empty body, and no body.
SELECT t.say(t.id('tx bytes'), NULL, ''::bytea) AS empty, t.say(t.id('tx bytes'), NULL, ''::text) AS empty_again;
-- Every function of the schema, with NULL for each of its arguments, twice: an ERROR of the documented sort, or
-- an answer where the function is a helper that knows NULL.
CREATE TEMP TABLE nulls AS
SELECT p.oid::regprocedure AS call, split_part(t.err(format('SELECT %s(%s)', p.oid::regproc,
       (SELECT string_agg('NULL::' || format_type(a, NULL), ', ' ORDER BY n) FROM unnest(proargtypes) WITH ORDINALITY AS u (a, n)))), '|', 1) AS code
FROM pg_proc p, generate_series(1, 2) WHERE pronamespace = 'payment_idem'::regnamespace AND prokind = 'f' AND prorettype <> 'trigger'::regtype;
SELECT DISTINCT call, code FROM nulls WHERE code NOT IN ('22004', '22023', 'no error') ORDER BY 1;
SELECT count(*) > 20 AS called FROM nulls;
SELECT pg_postmaster_start_time() = :'started' AS server_is_up, pg_backend_pid() = :pid AS same_backend;

SELECT * FROM payment_idem.check_invariants();
