-- Public failure reports, kind DEDUP (and B101, B123), those that one session can show.
\set t1 't.id(''dedup'')'
\set t2 't.id(''dedup2'')'
SELECT t.tenant('dedup') = :t1 AS t1, t.tenant('dedup2') = :t2 AS t2;

\echo B02: one payment raises several event types under different ids
SELECT t.order(:t1, 'B02');
SELECT id, t.say(:t1, id, t.ev(type, 'B02', pay => 'pi_b02', id => id)) FROM (VALUES
    ('b02_a', 'checkout_completed'), ('b02_b', 'payment_succeeded'), ('b02_c', 'charge_succeeded')) AS v (id, type);
SELECT receipts, ledger, outbox FROM t.counts(:t1);

\echo B03: a duplicate inside a transaction of the caller is a value, not an error
SELECT t.order(:t1, 'B03'), t.say(:t1, 'b03', t.ev('paid', 'B03', pay => 'pi_b03', id => 'b03'));
CREATE TEMP TABLE app_log (n int);
BEGIN;
INSERT INTO app_log VALUES (1);
SELECT t.say(:t1, 'b03', t.ev('paid', 'B03', pay => 'pi_b03', id => 'b03'));
INSERT INTO app_log VALUES (2);
COMMIT;
SELECT count(*) AS app_log FROM app_log;

\echo B05: an event whose work failed is not marked as seen
SELECT t.order(:t1, 'B05');
SELECT * FROM t.counts(:t1) \gset before_
CREATE FUNCTION t.refuse_completion() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN RAISE EXCEPTION 'not today' USING ERRCODE = 'P0042'; END$$;
CREATE TRIGGER refuse_completion BEFORE UPDATE ON payment_idem.orders
    FOR EACH ROW WHEN (NEW.status = 'COMPLETED') EXECUTE FUNCTION t.refuse_completion();
SELECT t.breaks($$SELECT t.say(t.id('dedup'), 'b05', t.ev('paid', 'B05', pay => 'pi_b05', id => 'b05'))$$);
SELECT (receipts, ledger, outbox, exceptions, anomalies)
     = (:before_receipts, :before_ledger, :before_outbox, :before_exceptions, :before_anomalies) AS nothing_stored FROM t.counts(:t1);
DROP TRIGGER refuse_completion ON payment_idem.orders;
SELECT t.say(:t1, 'b05', t.ev('paid', 'B05', pay => 'pi_b05', id => 'b05'));

\echo B09: the same event id of another tenant is another event
SELECT t.order(:t1, 'B09'), t.order(:t2, 'B09');
SELECT t.say(:t1, 'b09', t.ev('paid', 'B09', pay => 'pi_b09', id => 'b09')) AS t1,
       t.say(:t2, 'b09', t.ev('paid', 'B09', pay => 'pi_b09', id => 'b09')) AS t2;
SELECT o.tenant = :t1 AS of_t1, status FROM payment_idem.orders o WHERE client_txn_id = 'B09' ORDER BY of_t1;

\echo B10: NULL and blank identities
-- The design goes further than the row here: a NULL event id is no fault where the signed body holds it.
SELECT t.order(:t1, 'B10');
SELECT * FROM t.counts(:t1) \gset before_
SELECT left(t.err(call), 5) AS first, left(t.err(call), 5) AS again FROM (VALUES
    ('SELECT payment_idem.ingest(NULL, ''b10'', ''{}'', ''x'')'),
    ('SELECT payment_idem.ingest('''', ''b10'', ''{}'', ''x'')')) AS v (call);
SELECT t.say(:t1, '', t.ev('paid', 'B10', pay => 'pi_b10', id => 'b10')) AS empty,
       t.say(:t1, '', t.ev('paid', 'B10', pay => 'pi_b10', id => 'b10')) AS again;
SELECT t.say(:t1, '   ', t.ev('paid', 'B10', pay => 'pi_b10', id => 'b10')) AS blank,
       t.say(:t1, '   ', t.ev('paid', 'B10', pay => 'pi_b10', id => 'b10')) AS again;
SELECT (receipts, ledger, outbox, exceptions, anomalies)
     = (:before_receipts, :before_ledger, :before_outbox, :before_exceptions, :before_anomalies) AS nothing_stored FROM t.counts(:t1);
SELECT t.say(:t1, NULL, t.ev('paid', 'B10', pay => 'pi_b10', id => 'b10')) AS from_the_body;
SELECT t.say(:t1, NULL, t.ev('paid', 'B10', pay => 'pi_b10', id => 'b10')) AS again;
-- Ids that are blank, or missing, in the signed body: authentic, unreadable, and the same bytes are known again.
SELECT id, t.say(:t1, NULL, t.ev('paid', 'B10', id => id)) AS first FROM (VALUES (''), ('   '), (NULL)) AS v (id);
SELECT id, t.say(:t1, NULL, t.ev('paid', 'B10', id => id)) AS again FROM (VALUES (''), ('   '), (NULL)) AS v (id);

\echo B12: ids are compared byte by byte
SELECT t.order(:t1, 'B12_' || n) FROM generate_series(1, 6) n;
SELECT n, t.say(:t1, id, t.ev('paid', 'B12_' || n, pay => 'pi_b12_' || n, id => id)) FROM (VALUES
    (1, 'EVT_a1'), (2, 'evt_A1'), (3, U&'caf\00E9'), (4, U&'cafe\0301'), (5, U&'evt\202Ea1')) AS v (n, id);
SELECT n, t.say(:t1, id, t.ev('paid', 'B12_' || n, pay => 'pi_b12_' || n, id => id)) AS again FROM (VALUES
    (1, 'EVT_a1'), (2, 'evt_A1'), (3, U&'caf\00E9'), (4, U&'cafe\0301'), (5, U&'evt\202Ea1')) AS v (n, id);
-- White space is refused by rule, never trimmed: in the argument as a request, in the body as unreadable.
SELECT t.say(:t1, 'EVT_a1 ', t.ev('paid', 'B12_6', pay => 'pi_b12_6', id => 'EVT_a1 ')) AS argument,
       t.say(:t1, NULL, t.ev('paid', 'B12_6', pay => 'pi_b12_6', id => 'EVT_a1 ')) AS body;

\echo B14: the same signed bytes under another event id are a replay
SELECT t.order(:t1, 'B14'), t.order(:t1, 'B14_2');
SELECT t.say(:t1, 'b14_1', t.ev('paid', 'B14', pay => 'pi_b14', id => 'b14_1')),
       t.say(:t1, 'b14_2', t.ev('paid', 'B14', pay => 'pi_b14', id => 'b14_1')),
       t.say(:t1, 'b14_3', t.ev('paid', 'B14', pay => 'pi_b14', id => 'b14_1'));
SELECT kind, identity, string_agg(claimed_id, ' ' ORDER BY claimed_id) AS claimed FROM payment_idem.anomalies
WHERE tenant = :t1 AND identity = 'b14_1' GROUP BY 1, 2;
SELECT client_txn_id, status, paid_minor FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id LIKE 'B14%' ORDER BY 1;
-- Where the id travels unsigned, in a header, the bytes are the identity: the same bytes are a duplicate under
-- whatever id, and other bytes under a used id are an event of their own, with an anomaly.
SELECT payment_idem.define_gateway('unsigned-ids', definition #- '{event,id}') FROM payment_idem.gateways WHERE gateway = 'generic';
SELECT payment_idem.create_source(:t1, 'unsigned', 'unsigned-ids');
SELECT payment_idem.add_secret(:t1, 'unsigned', t.secret('dedup')) IS NOT NULL AS secret;
SELECT t.order(:t1, 'B14_u1'), t.order(:t1, 'B14_u2');
SELECT id, body, t.say(:t1, id, t.ev('paid', body, pay => 'pi_' || body, id => NULL), 'unsigned') FROM (VALUES
    ('h1', 'B14_u1'), ('h1', 'B14_u1'), ('h2', 'B14_u1'), (NULL, 'B14_u1'), ('h1', 'B14_u2'), ('h1', 'B14_u2')) AS v (id, body);
SELECT identity_kind, event_id FROM payment_idem.event_receipts WHERE tenant = :t1 AND source = 'unsigned' ORDER BY receipt;
SELECT kind, claimed_id, first_sha256 = sha256(convert_to(t.ev('paid', 'B14_u1', pay => 'pi_B14_u1', id => NULL), 'UTF8')) AS names_the_first
FROM payment_idem.anomalies WHERE tenant = :t1 AND source = 'unsigned';

\echo B101: identity does not depend on the month
SELECT t.order(:t1, 'B101'), t.say(:t1, 'b101', t.ev('paid', 'B101', pay => 'pi_b101', id => 'b101'));
UPDATE payment_idem.event_receipts SET received_at = received_at - interval '1 month', processed_at = processed_at - interval '1 month'
WHERE tenant = :t1 AND identity = 'b101';
SELECT t.say(:t1, 'b101', t.ev('paid', 'B101', pay => 'pi_b101', id => 'b101'));
UPDATE payment_idem.event_receipts SET received_at = '2020-01-31 23:59:59.9Z', processed_at = '2020-02-01 00:00:00.1Z'
WHERE tenant = :t1 AND identity = 'b101';
SELECT t.say(:t1, 'b101', t.ev('paid', 'B101', pay => 'pi_b101', id => 'b101'));
SELECT string_agg(attname, ', ' ORDER BY n) AS key_of_receipts
FROM pg_index, unnest(indkey) WITH ORDINALITY AS k (attnum, n) JOIN pg_attribute a USING (attnum)
WHERE indrelid = 'payment_idem.event_receipts'::regclass AND indisprimary AND attrelid = indrelid;

\echo B123: duplicates burn no sequence value and no transaction id; numbers are 64 bits wide
SELECT last_value AS before FROM payment_idem.receipt_number \gset
SELECT says, count(*) FROM (SELECT t.say(:t1, 'b101', t.ev('paid', 'B101', pay => 'pi_b101', id => 'b101')) AS says
                            FROM generate_series(1, 100)) AS v GROUP BY says;
SELECT last_value = :before AS sequence_stands_still FROM payment_idem.receipt_number;
BEGIN;
SELECT t.say(:t1, 'b101', t.ev('paid', 'B101', pay => 'pi_b101', id => 'b101')), pg_current_xact_id_if_assigned() AS xid;
SELECT pg_current_xact_id_if_assigned() AS xid;
COMMIT;
-- Nor does what is not authentic.
BEGIN;
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'b123', '{}', t.sign('{}', 'another secret')) r;
SELECT pg_current_xact_id_if_assigned() AS xid;
COMMIT;
SELECT sequencename, data_type FROM pg_sequences WHERE schemaname = 'payment_idem' AND data_type <> 'bigint'::regtype;
SELECT attrelid::regclass, attname, atttypid::regtype FROM pg_attribute JOIN pg_class ON oid = attrelid
WHERE relnamespace = 'payment_idem'::regnamespace AND relkind IN ('r', 'p') AND attnum > 0
  AND attname ~ '(_id|^receipt|seq|^version|^touched|_minor)$' AND atttypid IN ('int2'::regtype, 'int4'::regtype)
  AND NOT (attrelid = 'payment_idem.gateways'::regclass AND attname = 'version'); -- changed by hand, a few times
SELECT setval('payment_idem.receipt_number', 2147483645) IS NOT NULL AS set;
SELECT t.order(:t1, 'B123_' || n), t.say(:t1, 'b123_' || n, t.ev('paid', 'B123_' || n, pay => 'pi_b123_' || n, id => 'b123_' || n))
FROM generate_series(1, 5) n;
SELECT count(*) AS beyond_31_bits FROM payment_idem.transactions WHERE tenant = :t1 AND receipt > 2147483647;

SELECT * FROM payment_idem.check_invariants();
