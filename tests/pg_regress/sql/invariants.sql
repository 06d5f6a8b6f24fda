-- check_invariants() sees what it says it sees: a healthy database says nothing, and for each invariant there is a
-- fault, planted as only an owner could, that it names. Every fault is rolled back.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS payment_idem;
CREATE EXTENSION IF NOT EXISTS pgcrypto SCHEMA public;
SET search_path = payment_idem, pg_temp, public;

-- A healthy tenant, by real calls.
CREATE FUNCTION pg_temp.tenant() RETURNS uuid LANGUAGE sql IMMUTABLE AS $$SELECT md5('invariants')::uuid$$;
CREATE FUNCTION pg_temp.say(body text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws('/', outcome, reason) FROM ingest(pg_temp.tenant(), NULL, body,
        encode(hmac(convert_to(body, 'UTF8'), 'secret of invariants', 'sha256'), 'hex'))
$$;
CREATE FUNCTION pg_temp.say(id text, type text, ord text, payment text DEFAULT NULL, more jsonb DEFAULT '{}') RETURNS text
LANGUAGE sql AS $$
    SELECT pg_temp.say((jsonb_strip_nulls(jsonb_build_object('id', id, 'type', type, 'order', ord, 'payment', payment,
                                                             'amount', 1000, 'currency', 'usd')) || more)::text)
$$;
SELECT create_tenant('invariants', pg_temp.tenant()) = pg_temp.tenant() AS made,
       create_source(pg_temp.tenant(), 'default', 'generic'),
       add_secret(pg_temp.tenant(), 'default', 'secret of invariants') > 0 AS secret;
SELECT c.outcome, c.status
FROM (VALUES ('O1', NULL), ('O2', NULL), ('O3', 'G3'), ('O4', NULL), ('O5', NULL)) AS o (name, gateway_order),
     LATERAL create_order(pg_temp.tenant(), 'm1', name, 10, 'USD', gateway_order_id => gateway_order) AS c;
SELECT pg_temp.say('attempt', 'attempted', 'O1');
SELECT pg_temp.say('failure', 'failed', 'O1', 'pi_1');
SELECT pg_temp.say('payment', 'paid', 'O1', 'pi_2', '{"utr": "UTR1"}');
SELECT pg_temp.say('again', 'paid', 'O1', 'pi_2');
SELECT pg_temp.say('second', 'paid', 'O1', 'pi_3');
SELECT pg_temp.say('payment_2', 'paid', 'O2', 'pi_4');
SELECT pg_temp.say('too_little', 'paid', 'O3', 'pi_5', '{"amount": 999}');
SELECT pg_temp.say('expiry', 'expired', 'O4');
SELECT pg_temp.say('early', 'paid', 'O9', 'pi_6', '{"gateway_order_id": "G9"}');
SELECT pg_temp.say('{');
SELECT outcome, reason, count(*) FROM event_receipts WHERE tenant = pg_temp.tenant() GROUP BY 1, 2 ORDER BY 1, 2;
SELECT * FROM check_invariants();

-- Names for what the faults touch.
CREATE FUNCTION pg_temp.o(name text) RETURNS uuid LANGUAGE sql STABLE AS
    $$SELECT order_id FROM payment_idem.orders WHERE tenant = pg_temp.tenant() AND client_txn_id = name$$;
CREATE FUNCTION pg_temp.r(id text) RETURNS bigint LANGUAGE sql STABLE AS
    $$SELECT receipt FROM payment_idem.event_receipts WHERE tenant = pg_temp.tenant() AND event_id = id$$;

-- Writes a line again with its right hash: a forger who knows the encoding.
CREATE PROCEDURE pg_temp.rehash(id text) LANGUAGE sql AS $$
    UPDATE payment_idem.transactions t SET hash = payment_idem.ledger_line_hash(t) WHERE receipt = pg_temp.r(id)
$$;
-- Appends a line that is chained as it should be, with the order's head: what an extra effect of an event would look like.
CREATE PROCEDURE pg_temp.forge(ord text, event_receipt bigint, from_status payment_idem.order_status,
                               to_status payment_idem.order_status, amount_minor bigint) LANGUAGE plpgsql AS $$
DECLARE
    line payment_idem.transactions;
BEGIN
    SELECT t.* INTO line FROM payment_idem.transactions t WHERE receipt = pg_temp.r('payment_2');
    SELECT order_id, ledger_seq + 1, ledger_head INTO line.order_id, line.seq, line.prev_hash
    FROM payment_idem.orders WHERE order_id = pg_temp.o(ord);
    line.receipt := event_receipt;
    line.from_status := forge.from_status;
    line.to_status := forge.to_status;
    line.amount_minor := forge.amount_minor;
    line.hash := payment_idem.ledger_line_hash(line);
    INSERT INTO payment_idem.transactions VALUES (line.*);
    UPDATE payment_idem.orders o
    SET ledger_seq = line.seq, ledger_head = line.hash, status = line.to_status, paid_minor = paid_minor + line.amount_minor
    WHERE order_id = line.order_id;
END $$;

-- What the owner can switch off: the append-only triggers, and every key and check of the tables.
CREATE PROCEDURE pg_temp.disarm() LANGUAGE plpgsql AS $$
DECLARE
    broken record;
    armed regclass;
BEGIN
    FOR armed IN SELECT DISTINCT tgrelid FROM pg_trigger WHERE tgname LIKE 'refuse\_%' LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', armed);
    END LOOP;
    LOOP -- one at a time: what a partition inherits goes with its parent's, what is its own does not
        SELECT conrelid::regclass AS of_table, conname AS name INTO broken
        FROM pg_constraint JOIN pg_class c ON c.oid = conrelid
        WHERE connamespace = 'payment_idem'::regnamespace AND contype IN ('c', 'p', 'u', 'f') AND coninhcount = 0
          AND (conrelid = 'payment_idem.transactions'::regclass OR c.relispartition
               OR c.relname IN ('event_receipts', 'outbox', 'exceptions', 'payment_references')
               OR (c.relname = 'orders' AND contype = 'c'))
        ORDER BY c.relkind = 'p' DESC, conrelid, conname LIMIT 1;
        EXIT WHEN NOT FOUND;
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I CASCADE', broken.of_table, broken.name);
    END LOOP;
    FOR broken IN SELECT contypid::regtype AS of_type, conname AS name FROM pg_constraint
                  WHERE connamespace = 'payment_idem'::regnamespace AND contypid <> 0 LOOP
        EXECUTE format('ALTER DOMAIN %s DROP CONSTRAINT %I', broken.of_type, broken.name);
    END LOOP;
    DROP INDEX payment_idem.event_receipts_number;
END $$;

-- The invariants that the checker names after the statement; what the statement did is undone.
CREATE TABLE pg_temp.named (invariant text);
CREATE FUNCTION pg_temp.seen(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    invariants text[];
BEGIN
    BEGIN
        EXECUTE statement;
        SELECT array_agg(DISTINCT invariant COLLATE "C" ORDER BY invariant COLLATE "C") INTO invariants FROM payment_idem.check_invariants();
        RAISE EXCEPTION USING ERRCODE = 'PT000';
    EXCEPTION WHEN SQLSTATE 'PT000' THEN NULL;
    END;
    INSERT INTO pg_temp.named SELECT unnest(invariants);
    RETURN array_to_string(invariants, E'\n');
END $$;

BEGIN;
CALL pg_temp.disarm();
SELECT * FROM check_invariants();

-- Every column of a ledger line, in turn: those of today and those to come.
CREATE FUNCTION pg_temp.another(of_type oid, column_name name) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN of_type = 'uuid'::regtype THEN format('md5(%I::text)::uuid', column_name)
        WHEN of_type IN ('int2'::regtype, 'int8'::regtype) THEN format('%I + 1', column_name)
        WHEN of_type = 'text'::regtype THEN format($f$coalesce(%I, '') || 'x'$f$, column_name)
        WHEN of_type = 'bytea'::regtype THEN format('sha256(%I)', column_name)
        WHEN of_type = 'timestamptz'::regtype THEN format($f$%I + interval '1 microsecond'$f$, column_name)
        WHEN of_type IN (SELECT enumtypid FROM pg_enum) THEN format(
            '(SELECT enumlabel FROM pg_enum WHERE enumtypid = %s AND enumlabel <> %I::text ORDER BY enumsortorder LIMIT 1)::%s',
            of_type, column_name, of_type::regtype)
    END
$$;
SELECT attname AS altered, pg_temp.seen(format('UPDATE payment_idem.transactions SET %I = %s WHERE receipt = pg_temp.r(''payment'')',
                                               attname, pg_temp.another(coalesce(nullif(typbasetype, 0), atttypid), attname))) AS seen
FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = 'transactions'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;
-- And those that may be empty, emptied.
SELECT attname AS emptied, pg_temp.seen(format('UPDATE payment_idem.transactions SET %I = NULL WHERE receipt = pg_temp.r(''payment'')',
                                               attname)) AS seen
FROM pg_attribute
WHERE attrelid = 'transactions'::regclass AND attnum > 0 AND NOT attisdropped AND NOT attnotnull
  AND attname <> 'gateway_order_id' -- which is empty already
ORDER BY attnum;

-- Whole lines.
SELECT fault, pg_temp.seen(statement) AS seen FROM (VALUES
    ('the first line is deleted',
     $$DELETE FROM transactions WHERE receipt = pg_temp.r('attempt')$$),
    ('a line between is deleted',
     $$DELETE FROM transactions WHERE receipt = pg_temp.r('failure')$$),
    ('the last line is deleted',
     $$DELETE FROM transactions WHERE receipt = pg_temp.r('payment')$$),
    ('... and the order made to fit',
     $$DELETE FROM transactions WHERE receipt = pg_temp.r('payment');
       DELETE FROM outbox WHERE receipt = pg_temp.r('payment');
       DELETE FROM payment_references WHERE receipt = pg_temp.r('payment');
       UPDATE orders o SET status = 'FAILED', paid_minor = 0, ledger_seq = 2, outbox_seq = 0,
                           ledger_head = (SELECT hash FROM transactions t WHERE t.receipt = pg_temp.r('failure'))
       WHERE order_id = pg_temp.o('O1')$$),
    ('the tail is cut off',
     $$DELETE FROM transactions WHERE order_id = pg_temp.o('O1') AND seq > 1$$),
    ('all of it is gone',
     $$TRUNCATE transactions$$),
    ('two lines are swapped',
     $$UPDATE transactions SET seq = 3 - seq WHERE order_id = pg_temp.o('O1') AND seq < 3$$),
    ('... and hashed again',
     $$UPDATE transactions SET seq = 3 - seq WHERE order_id = pg_temp.o('O1') AND seq < 3;
       CALL pg_temp.rehash('attempt'); CALL pg_temp.rehash('failure')$$),
    ('a line between is altered and hashed again',
     $$UPDATE transactions SET event_type = 'STATUS_VERIFIED' WHERE receipt = pg_temp.r('failure');
       CALL pg_temp.rehash('failure')$$),
    ('the last line is altered and hashed again',
     $$UPDATE transactions SET event_type = 'STATUS_VERIFIED' WHERE receipt = pg_temp.r('payment');
       CALL pg_temp.rehash('payment')$$),
    ('a line is there twice, in two months',
     $$INSERT INTO transactions SELECT (jsonb_populate_record(t, jsonb_build_object('created_at', t.created_at + interval '2 months'))).*
       FROM transactions t WHERE receipt = pg_temp.r('attempt')$$),
    ('a line is added for an event that was not applied',
     $$CALL pg_temp.forge('O5', pg_temp.r('too_little'), 'PENDING', 'PROCESSING', 0)$$),
    ('a line is added for no event',
     $$CALL pg_temp.forge('O5', -1, 'PENDING', 'PROCESSING', 0)$$),
    ('a line is added for another order''s event',
     $$CALL pg_temp.forge('O5', pg_temp.r('payment_2'), 'PENDING', 'COMPLETED', 1000)$$),
    ('an order is completed twice',
     $$CALL pg_temp.forge('O2', pg_temp.r('second'), 'PENDING', 'COMPLETED', 1000)$$),
    ('a failure books money',
     $$CALL pg_temp.forge('O5', -1, 'PENDING', 'FAILED', 1);
       UPDATE transactions SET kind = 'payment_failed' WHERE order_id = pg_temp.o('O5')$$)
) AS planted (fault, statement);

-- Orders.
SELECT fault, pg_temp.seen(format('UPDATE orders SET %s WHERE order_id = pg_temp.o(%L)', fault, ord)) AS seen FROM (VALUES
    ('O1', 'paid_minor = 1001'),
    ('O1', 'refunded_minor = 1'),
    ('O1', 'amount_minor = 1001'),
    ('O1', 'currency = ''EUR'''),
    ('O1', 'status = ''REFUNDED'''),
    ('O1', 'status = ''PENDING'''),
    ('O1', 'ledger_seq = 2'),
    ('O1', 'ledger_seq = 4'),
    ('O1', 'ledger_head = sha256(ledger_head)'),
    ('O1', 'ledger_head = NULL'),
    ('O1', 'outbox_seq = 0'),
    ('O1', 'outbox_seq = 2'),
    ('O1', 'client_txn_id = ''O6'''), -- the hash over it is no longer the one that was kept
    ('O1', 'gateway_order_id = ''G1'''),
    ('O3', 'gateway_order_id = NULL'),
    ('O5', 'status = ''COMPLETED'''),
    ('O5', 'client_txn_id = ''O9''')
) AS planted (ord, fault);
SELECT fault, pg_temp.seen(statement) AS seen FROM (VALUES
    ('an order is deleted',
     $$DELETE FROM orders WHERE order_id = pg_temp.o('O1')$$),
    ('a gateway order id is of no order',
     $$UPDATE order_keys SET order_id = md5('other')::uuid WHERE order_id = pg_temp.o('O3')$$),
    ('a gateway order id that an event waits for is of an order',
     $$UPDATE order_keys SET order_id = pg_temp.o('O5') WHERE (tenant, kind, value) = (pg_temp.tenant(), 'gateway_order', 'G9');
       UPDATE orders SET gateway_order_id = 'G9' WHERE order_id = pg_temp.o('O5')$$)
) AS planted (fault, statement);

-- Outbox.
SELECT fault, pg_temp.seen(statement) AS seen FROM (VALUES
    ('a row is deleted',
     $$DELETE FROM outbox WHERE receipt = pg_temp.r('payment')$$),
    ('... and the order made to fit',
     $$DELETE FROM outbox WHERE receipt = pg_temp.r('payment');
       UPDATE orders SET outbox_seq = 0 WHERE order_id = pg_temp.o('O1')$$),
    ('a row is there twice',
     $$INSERT INTO outbox SELECT * FROM outbox WHERE receipt = pg_temp.r('payment')$$),
    ('... and the order made to fit',
     $$INSERT INTO outbox SELECT * FROM outbox WHERE receipt = pg_temp.r('payment');
       UPDATE outbox SET seq = 2 WHERE ctid = (SELECT max(ctid) FROM outbox WHERE receipt = pg_temp.r('payment'));
       UPDATE orders SET outbox_seq = 2 WHERE order_id = pg_temp.o('O1')$$),
    ('a row is added for an event that was not applied',
     $$INSERT INTO outbox (tenant, receipt, action, order_id, seq, available_at, created_at)
       VALUES (pg_temp.tenant(), pg_temp.r('second'), 'fulfil_order', pg_temp.o('O1'), 2, now(), now());
       UPDATE orders SET outbox_seq = 2 WHERE order_id = pg_temp.o('O1')$$),
    ('a row is added for an event that completed nothing',
     $$INSERT INTO outbox (tenant, receipt, action, order_id, seq, available_at, created_at)
       VALUES (pg_temp.tenant(), pg_temp.r('failure'), 'fulfil_order', pg_temp.o('O1'), 2, now(), now());
       UPDATE orders SET outbox_seq = 2 WHERE order_id = pg_temp.o('O1')$$),
    ('a row is for another order',
     $$UPDATE outbox SET order_id = pg_temp.o('O5') WHERE receipt = pg_temp.r('payment')$$),
    ('a row is for another action',
     $$UPDATE outbox SET action = 'fulfil' WHERE receipt = pg_temp.r('payment')$$),
    ('a row is out of count',
     $$UPDATE outbox SET seq = 2 WHERE receipt = pg_temp.r('payment')$$)
) AS planted (fault, statement);

-- Receipts.
SELECT fault, pg_temp.seen(statement) AS seen FROM (VALUES
    ('a receipt is deleted',
     $$DELETE FROM event_receipts WHERE receipt = pg_temp.r('payment')$$),
    ('an event has two receipts',
     $$INSERT INTO event_receipts
       SELECT (jsonb_populate_record(e, jsonb_build_object('receipt', -1, 'outcome', 'recorded'))).*
       FROM event_receipts e WHERE receipt = pg_temp.r('payment')$$),
    ('two events have one number',
     $$UPDATE event_receipts SET receipt = pg_temp.r('payment') WHERE receipt = pg_temp.r('again')$$),
    ('an applied event is said to be recorded',
     $$UPDATE event_receipts SET outcome = 'recorded' WHERE receipt = pg_temp.r('payment')$$),
    ('a recorded event is said to be applied',
     $$UPDATE event_receipts SET outcome = 'applied' WHERE receipt = pg_temp.r('again')$$),
    ('an applied event is said to be parked',
     $$UPDATE event_receipts SET outcome = 'parked', reason = 'order_not_found' WHERE receipt = pg_temp.r('payment')$$),
    ('an event in exception is said to be recorded',
     $$UPDATE event_receipts SET outcome = 'recorded' WHERE receipt = pg_temp.r('second')$$),
    ('an event in exception has another reason',
     $$UPDATE event_receipts SET reason = 'late_payment' WHERE receipt = pg_temp.r('second')$$),
    ('a parked event is said to be in exception',
     $$UPDATE event_receipts SET outcome = 'exception', reason = 'amount_mismatch' WHERE receipt = pg_temp.r('early')$$),
    ('a parked event has its order by reference',
     $$UPDATE event_receipts SET order_reference = 'O5' WHERE receipt = pg_temp.r('early')$$),
    ('... of another merchant, which is healthy',
     $$UPDATE event_receipts SET order_reference = 'O5', merchant_id = 'm2' WHERE receipt = pg_temp.r('early')$$),
    ('a parked event has its order by the gateway''s id',
     $$UPDATE event_receipts SET gateway_order_id = 'G3' WHERE receipt = pg_temp.r('early')$$),
    ('nobody fetches the facts of a thin event',
     $$UPDATE event_receipts SET reason = 'awaiting_details' WHERE receipt = pg_temp.r('early')$$),
    ('a parked event holds a reference',
     $$INSERT INTO payment_references
       VALUES (pg_temp.tenant(), 'generic', 'payment', 'pi_6', pg_temp.tenant(), pg_temp.o('O5'), pg_temp.r('early'), 'held')$$)
) AS planted (fault, statement);
SELECT fault, pg_temp.seen(format('UPDATE event_receipts SET %s WHERE receipt = pg_temp.r(''payment'')', fault)) AS seen FROM (VALUES
    ('amount_minor = 999'),
    ('amount_minor = NULL'),
    ('currency = ''EUR'''),
    ('currency = NULL'),
    ('order_id = pg_temp.o(''O5'')'),
    ('order_id = NULL'),
    ('source = ''other'''),
    ('kind = ''payment_failed'''),
    ('event_id = NULL'),
    ('gateway_order_id = ''G1'''),
    ('bank_utr = ''UTR2'''),
    ('payment_refs = ''{"payment": "pi_7"}''')
) AS planted (fault);

-- Exceptions and references.
SELECT fault, pg_temp.seen(statement) AS seen FROM (VALUES
    ('an exception is deleted',
     $$DELETE FROM exceptions WHERE exception_id = pg_temp.r('second')$$),
    ('an exception without order is deleted',
     $$DELETE FROM exceptions WHERE tenant = pg_temp.tenant() AND order_id IS NULL$$),
    ('an exception is of another kind',
     $$UPDATE exceptions SET kind = 'amount_mismatch' WHERE exception_id = pg_temp.r('second')$$),
    ('an exception is of another order',
     $$UPDATE exceptions SET order_id = pg_temp.o('O5') WHERE exception_id = pg_temp.r('second')$$),
    ('an exception is of an applied event',
     $$INSERT INTO exceptions (tenant, exception_id, source, kind, opened_at)
       VALUES (pg_temp.tenant(), pg_temp.r('payment'), 'default', 'second_payment', now())$$),
    ('an exception is of no event',
     $$INSERT INTO exceptions (tenant, exception_id, source, kind, opened_at)
       VALUES (pg_temp.tenant(), -1, 'default', 'second_payment', now())$$),
    ('an exception is not found by its reference',
     $$DELETE FROM exception_references WHERE exception_id = pg_temp.r('second')$$),
    ('an exception is found by another''s reference',
     $$UPDATE exception_references SET value = 'pi_2' WHERE exception_id = pg_temp.r('second')$$),
    ('a reference is of no exception',
     $$UPDATE exception_references SET exception_id = -1 WHERE exception_id = pg_temp.r('second')$$),
    ('the reference of a payment is gone',
     $$DELETE FROM payment_references WHERE tenant = pg_temp.tenant() AND value = 'pi_2'$$),
    ('its bank reference is gone',
     $$DELETE FROM payment_references WHERE tenant = pg_temp.tenant() AND value = 'UTR1'$$),
    ('its idempotency hash is gone',
     $$DELETE FROM payment_references WHERE tenant = pg_temp.tenant() AND kind = 'idempotency_hash'$$),
    ('its reference is said to be held',
     $$UPDATE payment_references SET state = 'held' WHERE tenant = pg_temp.tenant() AND value = 'pi_2'$$),
    ('its reference is another order''s',
     $$UPDATE payment_references SET order_id = pg_temp.o('O2') WHERE tenant = pg_temp.tenant() AND value = 'pi_2'$$),
    ('a held reference is said to be applied',
     $$UPDATE payment_references SET state = 'applied' WHERE tenant = pg_temp.tenant() AND value = 'pi_5'$$),
    ('a reference is of no order',
     $$UPDATE payment_references SET order_id = md5('other')::uuid WHERE tenant = pg_temp.tenant() AND value = 'pi_5'$$),
    ('a reference is of no event',
     $$UPDATE payment_references SET receipt = -1 WHERE tenant = pg_temp.tenant() AND value = 'pi_5'$$)
) AS planted (fault, statement);

-- Is there an invariant that no fault above has shown?
SELECT invariant AS never_seen
FROM (SELECT DISTINCT replace(literal[1], '''''', '''') AS invariant
      FROM pg_proc, LATERAL regexp_matches(prosrc, '^SELECT ''((?:[^'']|'''')*)''', 'gn') AS literal
      WHERE oid = 'check_invariants()'::regprocedure) AS written
WHERE invariant NOT IN (SELECT named.invariant FROM pg_temp.named);
SELECT count(DISTINCT invariant) AS seen FROM pg_temp.named;
ROLLBACK;

-- Nothing of it is left.
SELECT * FROM check_invariants();
