-- Edges that no public report has: found by attacking the promises P1, P3, P6, P7, P10, P11 and P12 on purpose.
\set t1 't.id(''edges'')'
SET client_min_messages = warning;
SELECT t.tenant('edges') = :t1 AS t1;
CREATE FUNCTION pg_temp.open_exceptions() RETURNS TABLE (kind text, bearer text, resolution text) LANGUAGE sql AS $$
    SELECT x.kind, coalesce(o.client_txn_id, '(no order)'), coalesce(x.resolution, 'open')
    FROM payment_idem.exceptions x LEFT JOIN payment_idem.orders o USING (tenant, order_id)
    WHERE x.tenant = t.id('edges') ORDER BY x.exception_id
$$;
CREATE FUNCTION pg_temp.sqlstate_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;

\echo P7: a reference of another order is no booking of this one
SELECT t.order(:t1, 'A'), t.order(:t1, 'B');
SELECT t.say(:t1, 'a1', t.ev('paid', 'A', pay => 'p1', id => 'a1'));
SELECT t.say(:t1, 'b1', t.ev('paid', 'B', pay => 'p1', id => 'b1', more => '"utr":"U1"')) AS reused;
SELECT t.say(:t1, 'b2', t.ev('paid', 'B', pay => 'p1', id => 'b2', more => '"utr":"U1"')) AS repeated;
SELECT * FROM pg_temp.open_exceptions();
-- U1 was named together with A's payment, so it never pays B, by itself or with another name: it waits in the exception.
SELECT t.say(:t1, 'b3', t.ev('paid', 'B', pay => 'p2', id => 'b3', more => '"utr":"U1"')) AS linked,
       t.say(:t1, 'b4', t.ev('paid', 'B', pay => 'p2', id => 'b4')) AS linked_by_it;
SELECT t.say(:t1, 'b5', t.ev('paid', 'B', pay => 'p5', id => 'b5')) AS real_money;

-- The same where the name was held before it was named together with A's payment.
SELECT t.order(:t1, 'P7B');
SELECT t.say(:t1, 'p7b1', t.ev('paid', 'P7B', pay => 'pp7', id => 'p7b1', amt => '901')) AS held,
       t.say(:t1, 'p7b2', t.ev('paid', 'P7B', pay => 'pp7', id => 'p7b2', more => '"utr":"U1"')) AS named_together,
       t.say(:t1, 'p7b3', t.ev('paid', 'P7B', pay => 'pp7', id => 'p7b3')) AS alone;

\echo P8: a contradicting event of a booked payment is no news, whichever came first
SELECT t.order(:t1, 'P8E', gateway_order_id => 'GP8E'), t.order(:t1, 'P8F', gateway_order_id => 'GP8F');
SELECT t.say(:t1, 'p8e1', t.ev('paid', 'P8E', pay => 'pp8e', id => 'p8e1')) AS paid,
       t.say(:t1, 'p8e2', t.ev('paid', 'P8E', pay => 'pp8e', id => 'p8e2', more => '"gateway_order_id":"G?"')) AS contradicting;
SELECT t.say(:t1, 'p8f2', t.ev('paid', 'P8F', pay => 'pp8f', id => 'p8f2', more => '"gateway_order_id":"G?"')) AS contradicting,
       t.say(:t1, 'p8f1', t.ev('paid', 'P8F', pay => 'pp8f', id => 'p8f1')) AS paid;
SELECT * FROM pg_temp.open_exceptions() WHERE bearer IN ('P8E', 'P8F');

\echo one exception per payment, also where its events share no name but by a third
SELECT t.order(:t1, 'P8H');
SELECT t.say(:t1, 'p8h1', t.ev('paid', 'P8H', pay => 'pp8h', id => 'p8h1', more => '"utr":"UP8H0"')) AS paid,
       t.say(:t1, 'p8h2', t.ev('paid', 'P8H', pay => 'pp8h', id => 'p8h2', more => '"utr":"UP8H1"')) AS link,
       t.say(:t1, 'p8h3', t.ev('paid', 'P8H', pay => NULL, id => 'p8h3', amt => '900', more => '"utr":"UP8H1"')) AS other_amount,
       t.say(:t1, 'p8h4', t.ev('paid', 'P8H', pay => 'pp8h', id => 'p8h4', amt => '901')) AS by_another_name;

\echo P7: the same payment id at another gateway is another payment
SELECT payment_idem.define_gateway('edges_twin', (SELECT definition FROM payment_idem.gateways WHERE gateway = 'generic'));
SELECT payment_idem.create_source(:t1, 'twin', 'edges_twin');
SELECT payment_idem.add_secret(:t1, 'twin', 'secret of the twin') > 0 AS added;
SELECT t.order(:t1, 'C'), t.order(:t1, 'D', gateway_order_id => 'GD');
SELECT t.say(:t1, 'c1', t.ev('paid', 'C', pay => '77', id => 'c1', more => '"gateway_order_id":"GD"')) AS here;
SELECT t.say(:t1, 'c2', t.ev('paid', 'C', pay => '77', id => 'c2', more => '"gateway_order_id":"GD"'), 'twin') AS there;
SELECT t.say(:t1, 'c3', t.ev('paid', 'C', pay => '77', id => 'c3', more => '"gateway_order_id":"GD"'), 'twin') AS repeated;

\echo P7: what is on record of a failed attempt does not hide money
SELECT t.order(:t1, 'L'), t.order(:t1, 'M', gateway_order_id => 'GM');
SELECT t.say(:t1, 'l1', t.ev('failed', 'L', pay => 'pl', id => 'l1', more => '"gateway_order_id":"GM"')) AS failed;
SELECT t.say(:t1, 'l2', t.ev('paid', 'L', pay => 'pl', id => 'l2', more => '"gateway_order_id":"GM"')) AS paid;

\echo P7: a contradiction that names no order is raised once per payment, too
SELECT t.order(:t1, 'E', merchant_id => 'm1'), t.order(:t1, 'E', merchant_id => 'm2');
SELECT t.say(:t1, 'e1', t.ev('paid', 'E', pay => 'pe', id => 'e1')) AS first, t.say(:t1, 'e2', t.ev('paid', 'E', pay => 'pe', id => 'e2')) AS repeated;

\echo P11: an order that was deleted gives its gateway order id back
SELECT t.order(:t1, 'F', gateway_order_id => 'GF');
DELETE FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id = 'F';
SELECT t.say(:t1, 'f1', '{"id":"f1","type":"paid","gateway_order_id":"GF","amount":1000,"currency":"usd","payment":"pf"}') AS waits;
SELECT t.order(:t1, 'F', gateway_order_id => 'GF') AS again;
-- A source that events came from stays.
SELECT pg_temp.sqlstate_of($$DELETE FROM payment_idem.sources WHERE tenant = t.id('edges') AND source = 'default'$$);
SELECT pg_temp.sqlstate_of($$UPDATE payment_idem.sources SET source = 'other' WHERE tenant = t.id('edges') AND source = 'default'$$);
SELECT pg_temp.sqlstate_of($$TRUNCATE payment_idem.sources CASCADE$$);

-- Nor do the names change under which identities and references are kept.
SELECT pg_temp.sqlstate_of($$UPDATE payment_idem.sources SET gateway = 'edges_twin' WHERE tenant = t.id('edges') AND source = 'default'$$);
SELECT pg_temp.sqlstate_of($$UPDATE payment_idem.sources SET id_signed = false WHERE tenant = t.id('edges') AND source = 'default'$$);
SELECT pg_temp.sqlstate_of($$UPDATE payment_idem.tenants SET bank_reference_scope = 'database' WHERE tenant = t.id('edges')$$);
SELECT pg_temp.sqlstate_of($$UPDATE payment_idem.sources SET keep_payload = true WHERE tenant = t.id('edges') AND source = 'default'$$) AS allowed;

\echo P7: what waited for a mistake is settled when the order is told again
SELECT payment_idem.create_source(:t1, 'wrong', 'generic', '{"merchant_id": "m9"}');
SELECT payment_idem.add_secret(:t1, 'wrong', 'secret of the wrong') > 0 AS added;
SELECT t.order(:t1, 'N'), t.say(:t1, 'n1', t.ev('paid', 'N', pay => 'pn', id => 'n1'), 'wrong');
UPDATE payment_idem.sources SET merchant_id = 'm1' WHERE tenant = :t1 AND source = 'wrong';
SELECT t.order(:t1, 'N') AS told_again;

\echo P1, P3: rules that could pay without money are refused
SELECT pg_temp.sqlstate_of(format('INSERT INTO payment_idem.transition_rules VALUES (%L, %L, %L, %L)', t.id('edges'), kind, from_status, to_status))
FROM (VALUES ('payment_attempted', 'PENDING', 'COMPLETED'), ('payment_succeeded', 'PENDING', 'PROCESSING'), ('payment_failed', 'PENDING', 'REFUNDED'))
    AS v (kind, from_status, to_status);

\echo P11: jsonb that a JSON parser refuses
SELECT t.order(:t1, 'G');
SELECT left(headers::text, 16) AS headers, concat_ws('/', outcome, reason) FROM (VALUES
    ('{"a": 1e400}'::jsonb), (('{"a":' || repeat('[', 300) || repeat(']', 300) || '}')::jsonb), ('{"x-signature": [1, null, {}]}')) AS v (headers),
    LATERAL payment_idem.ingest(:t1, 'g1', t.ev('paid', 'G', pay => 'pg', id => 'g1'), NULL, 'default', headers);
SELECT pg_temp.sqlstate_of(format('SELECT payment_idem.create_source(%L, ''s'', ''generic'', %L)', :t1, '{"tolerance_s": 1e400}'));
SELECT pg_temp.sqlstate_of($$SELECT payment_idem.define_gateway('g', '{"description": 1e400}')$$);

\echo P12: an event id that looks like a digest does not stand in the way of the bytes with that digest
SELECT encode(sha256('{"id":'), 'hex') AS digest \gset
SELECT t.order(:t1, 'H');
SELECT t.say(:t1, 'sha256:' || :'digest', t.ev('paid', 'H', pay => 'ph', id => 'sha256:' || :'digest')) AS looks_like_a_digest;
SELECT t.say(:t1, NULL, '{"id":') AS unreadable;

\echo P1, P3: a write of ours that a trigger suppresses is 27000, and nothing stays
CREATE FUNCTION pg_temp.suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION pg_temp.suppressed(relation regclass, operation text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE format('CREATE TRIGGER suppress BEFORE %s ON %s FOR EACH ROW EXECUTE FUNCTION pg_temp.suppress()', operation, relation);
    answer := pg_temp.sqlstate_of(statement);
    EXECUTE format('DROP TRIGGER suppress ON %s', relation);
    RETURN answer;
END $$;
SELECT t.order(:t1, 'I');
SELECT t.say(:t1, 'j1', t.ev('paid', 'J', pay => 'pj', id => 'j1')) AS parked;
CREATE TABLE pg_temp.tries (relation regclass, operation text, statement text);
INSERT INTO pg_temp.tries VALUES
    ('payment_idem.event_receipts', 'INSERT', $$SELECT t.say(t.id('edges'), 'i1', t.ev('paid', 'I', pay => 'pi', id => 'i1'))$$),
    ('payment_idem.payment_references', 'INSERT', $$SELECT t.say(t.id('edges'), 'i1', t.ev('paid', 'I', pay => 'pi', id => 'i1'))$$),
    ('payment_idem.payment_references', 'INSERT', $$SELECT t.say(t.id('edges'), 'i1', t.ev('paid', 'I', '1', pay => 'pi', id => 'i1'))$$),
    ('payment_idem.exceptions', 'INSERT', $$SELECT t.say(t.id('edges'), 'i1', t.ev('paid', 'I', '1', pay => 'pi', id => 'i1'))$$),
    ('payment_idem.orders', 'UPDATE', $$SELECT t.say(t.id('edges'), 'i1', t.ev('paid', 'I', pay => 'pi', id => 'i1'))$$),
    ('payment_idem.outbox', 'INSERT', $$SELECT t.say(t.id('edges'), 'i1', t.ev('paid', 'I', pay => 'pi', id => 'i1'))$$),
    ('payment_idem.order_keys', 'INSERT', $$SELECT t.say(t.id('edges'), 'k1', t.ev('paid', 'K', pay => 'pk', id => 'k1'))$$),
    ('payment_idem.orders', 'INSERT', $$SELECT t.order(t.id('edges'), 'K')$$),
    ('payment_idem.order_keys', 'INSERT', $$SELECT t.order(t.id('edges'), 'K')$$),
    ('payment_idem.event_receipts', 'UPDATE', $$SELECT t.order(t.id('edges'), 'J')$$),
    ('payment_idem.orders', 'UPDATE', $$SELECT t.order(t.id('edges'), 'I', gateway_order_id => 'GI')$$);
SELECT relation, operation, pg_temp.suppressed(relation, operation, statement) FROM pg_temp.tries;
SELECT count(*) AS left_over FROM payment_idem.event_receipts WHERE tenant = :t1 AND identity IN ('i1', 'k1');
-- Without the trigger all of it goes through.
SELECT t.say(:t1, 'i1', t.ev('paid', 'I', pay => 'pi', id => 'i1')), t.order(:t1, 'J');

\echo P10: leases have a fixed length, whatever the month
SELECT pg_temp.sqlstate_of($$SELECT payment_idem.claim('w', 1, '1 mon -29 days -23:59:00')$$);

\echo P7: an event of a booked payment that contradicts itself is no news, unless it names a payment of another order, too
SELECT t.tenant('edges contested') IS NOT NULL AS made;
SELECT t.order(t.id('edges contested'), 'X1', gateway_order_id => 'XG1'), t.order(t.id('edges contested'), 'X2');
SELECT t.say(t.id('edges contested'), NULL, body) FROM unnest(ARRAY[
    t.ev('paid', 'X2', '999', pay => NULL, id => 'x1', more => '"utr":"XU2"'),
    t.ev('paid', 'X1', pay => 'xp1', id => 'x2'),
    t.ev('paid', 'X1', pay => 'xp1', id => 'x3', more => '"gateway_order_id":"XG9"'),
    t.ev('paid', 'X1', pay => 'xp1', id => 'x4', more => '"gateway_order_id":"XG9","utr":"XU2"'),
    t.ev('paid', 'X1', pay => 'xp1', id => 'x5', more => '"gateway_order_id":"XG9","utr":"XU2"')]) AS body;

\echo a redelivered parked event reads its own row, not all that is parked
-- While nothing is parked the planner takes the index of parked events for an empty one.
SELECT t.tenant('edges parked') IS NOT NULL AS made;
SELECT count(t.say(t.id('edges parked'), 'q' || i, t.ev('paid', 'Q' || i, pay => 'pq' || i, id => 'q' || i))) AS parked FROM generate_series(1, 300) i;
SELECT pg_stat_force_next_flush();
BEGIN;
SELECT count(t.say(t.id('edges parked'), 'q' || i, t.ev('paid', 'Q' || i, pay => 'pq' || i, id => 'q' || i))) AS again FROM generate_series(1, 300) i;
SELECT idx_tup_fetch <= 4 * 300 AS few_rows_read FROM pg_stat_xact_all_tables WHERE relid = 'payment_idem.event_receipts'::regclass;
COMMIT;

SELECT * FROM payment_idem.check_invariants();
