-- P11: public failure reports, kind JSON. Whatever the bytes say, a row comes back.
\set t1 't.id(''json'')'
SELECT t.tenant('json') = :t1 AS t1;
SELECT pg_postmaster_start_time() AS started, pg_backend_pid() AS pid \gset
-- Each body is for an order of its own, 10.00 USD: returns what becomes of it, and whether the same bytes are known again.
CREATE FUNCTION pg_temp.try(name text, body text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    first text; again text;
BEGIN
    PERFORM t.order(t.id('json'), name);
    first := t.say(t.id('json'), NULL, body);
    again := t.say(t.id('json'), NULL, body);
    RETURN first || CASE WHEN again LIKE 'duplicate of ' || split_part(first, ' ', 1) || ' %' THEN ', known again' ELSE ', then ' || again END;
END $$;

\echo B28: escapes that are no text spoil nothing where nobody reads them
SELECT n, pg_temp.try('B28_' || n, t.ev('paid', 'B28_' || n, pay => 'pi_b28_' || n, id => 'b28_' || n, more => '"name":' || name)) FROM (VALUES
    (1, '"a\u0000b"'), (2, '"\ud83d"'), (3, '"\udc00\ud83d"'), (4, '"\\u0000"'), (5, '"\ud83d\ude00"')) AS v (n, name);
SELECT n, name FROM (VALUES (1, '"a\u0000b"'), (2, '"\ud83d"')) AS v (n, name)
WHERE (SELECT position(convert_to(name, 'UTF8') IN raw_payload) > 0 FROM payment_idem.payloads p
       JOIN payment_idem.event_receipts r USING (tenant, receipt) WHERE r.tenant = :t1 AND r.event_id = 'b28_' || n);
-- In a fact that is read they make the event unreadable; in the payer, which is evidence only, they do not.
SELECT field, pg_temp.try('B28_' || field, regexp_replace(
    t.ev('paid', 'B28_' || field, pay => 'pi_b28_' || field, id => 'b28_' || field, more => '"utr":"u_' || field || '","payer_vpa":"x"'),
    '"' || field || '":"[^"]*"', '"' || field || '":"a\\u0000b"')) FROM (VALUES
    ('id'), ('type'), ('order'), ('currency'), ('payment'), ('utr'), ('payer_vpa')) AS v (field);

\echo B29: a key given twice is refused as ambiguous, wherever it is
SELECT what, pg_temp.try('B29_' || what, replace(replace(body, 'O1', 'B29_' || what), 'evt_1', 'b29_' || what)) FROM (VALUES
    ('amount', '{"id":"evt_1","type":"paid","order":"O1","amount":1,"amount":1000,"currency":"usd","payment":"pi_1"}'),
    ('same_amount', '{"id":"evt_1","type":"paid","order":"O1","amount":1000,"amount":1000,"currency":"usd","payment":"pi_1"}'),
    ('order', '{"id":"evt_1","type":"paid","order":"O1","order":"O2","amount":1000,"currency":"usd","payment":"pi_1"}'),
    ('id', '{"id":"evt_1","id":"evt_2","type":"paid","order":"O1","amount":1000,"currency":"usd","payment":"pi_1"}'),
    ('currency', '{"id":"evt_1","type":"paid","order":"O1","amount":1000,"currency":"usd","currency":"eur","payment":"pi_1"}'),
    ('escaped', '{"id":"evt_1","type":"paid","order":"O1","amount":1,"\u0061mount":1000,"currency":"usd","payment":"pi_1"}'),
    ('null', '{"id":"evt_1","type":"paid","order":"O1","amount":1000,"amount":null,"currency":"usd","payment":"pi_1"}'),
    ('nested', '{"id":"evt_1","type":"paid","order":"O1","amount":1000,"currency":"usd","payment":"pi_1","x":{"y":[{"z":1,"z":2}]}}')) AS v (what, body);
-- The same key in two objects is no duplicate, nor is another case of it.
SELECT pg_temp.try('B29_fine', t.ev('paid', 'B29_fine', pay => 'pi_b29', id => 'b29_fine', more => '"x":{"id":1,"amount":2},"Amount":3,"y":[{"z":1},{"z":2}]'));

\echo B30: one limit of depth, 64 levels, and no crash beyond it
SELECT depth, kind, pg_temp.try(format('B30_%s_%s', depth, kind), t.ev('paid', format('B30_%s_%s', depth, kind), pay => format('pi_b30_%s_%s', depth, kind),
    id => format('b30_%s_%s', depth, kind), more => '"x":' || repeat(opening, depth) || '1' || repeat(closing, depth)))
FROM unnest(ARRAY[62, 63, 64, 126, 127, 128, 129, 200, 6000, 100000]) AS depth, (VALUES ('array', '[', ']'), ('object', '{"a":', '}')) AS v (kind, opening, closing)
ORDER BY depth, kind;
-- Never closed, and nothing but brackets.
SELECT n, pg_temp.try('B30_open_' || n, repeat('[', n)) FROM (VALUES (64), (100000), (1000000)) AS v (n);
SELECT pg_postmaster_start_time() = :'started' AS server_is_up, pg_backend_pid() = :pid AS same_backend;

\echo B31: amounts are exact up to 64 bits
SELECT amount, currency, t.order(:t1, 'B31_' || amount, major, currency),
       t.say(:t1, 'b31_' || amount, t.ev('paid', 'B31_' || amount, amount, currency, 'pi_b31_' || amount, 'b31_' || amount))
FROM (VALUES ('2147483647', 21474836.47, 'USD'), ('2147483648', 21474836.48, 'USD'), ('2415550000', 24155500, 'IDR'),
             ('2415550001', 2415550001, 'VND'), ('9007199254740993', 90071992547409.93, 'USD'),
             ('9223372036854775807', 92233720368547758.07, 'USD')) AS v (amount, major, currency);
SELECT client_txn_id, o.amount_minor, paid_minor, l.amount_minor AS booked FROM payment_idem.orders o
JOIN payment_idem.transactions l USING (tenant, order_id) WHERE tenant = :t1 AND client_txn_id LIKE 'B31%' ORDER BY o.amount_minor;
-- One off at the end of 53 bits is not the same amount.
SELECT t.order(:t1, 'B31_53', 90071992547409.93), t.say(:t1, 'b31_53', t.ev('paid', 'B31_53', '9007199254740992', pay => 'pi_b31_53', id => 'b31_53'));
-- What is no whole number of minor units in 64 bits cannot be read, and is kept as such.
SELECT n, amount, pg_temp.try('B31_x' || n, t.ev('paid', 'B31_x' || n, amount, pay => 'pi_b31_x' || n, id => 'b31_x' || n)) FROM (VALUES
    (1, '9223372036854775808'), (2, '-9223372036854775809'), (3, repeat('9', 30)), (4, '1e3'), (5, '1000.0'), (6, '"1000"'), (7, 'true'),
    (8, 'null'), (9, '[1000]'), (10, '0x3e8'), (11, '01000'), (12, '+1000'), (13, '1E400')) AS v (n, amount);
SELECT sum(amount_minor) AS total FROM payment_idem.transactions WHERE tenant = :t1 AND amount_minor > 9000000000000000;
SELECT t.order(:t1, 'B31_9e18', 90000000000000000), t.say(:t1, 'b31_9e18', t.ev('paid', 'B31_9e18', '9000000000000000000', pay => 'pi_b31_9e18', id => 'b31_9e18'));
SELECT sum(amount_minor) AS beyond_64_bits FROM payment_idem.transactions WHERE tenant = :t1 AND amount_minor > 9000000000000000;

\echo B34: far and infinite times
-- The gateway's time decides nothing about money: what no timestamp can hold counts as not told.
SELECT n, created, pg_temp.try('B34_' || n, t.ev('paid', 'B34_' || n, pay => 'pi_b34_' || n, id => 'b34_' || n, more => '"created":' || created)) FROM (VALUES
    (1, '1700000000'), (2, '253402300799'), (3, '253402300800'), (4, '-62135596801'), (5, '1e18'), (6, '1000000000000000000'), (7, '"2026-01-01"'), (8, '-1'), (9, '0')) AS v (n, created);
SELECT event_id, event_time AT TIME ZONE 'UTC' AS event_time FROM payment_idem.event_receipts
WHERE tenant = :t1 AND event_id LIKE 'b34%' ORDER BY receipt;
-- What the caller gives is refused where it could not be meant, or taken for what it says.
SELECT left(t.err(format('SELECT payment_idem.claim(''w'', lease => %L)', lease)), 5) AS lease FROM (VALUES
    ('1000000000000 seconds'), ('178000000 years')) AS v (lease);
SELECT left(t.err(format('SELECT payment_idem.nack(gen_random_uuid(), retry_after => %L)', back_off)), 5) AS back_off FROM (VALUES
    ('1000000000000 seconds'), ('178000000 years')) AS v (back_off);
SELECT expires_at, left(t.err(format('SELECT payment_idem.create_order(t.id(''json''), ''m1'', ''B34_x'', 1, ''USD'', %L)', expires_at)), 5) AS code
FROM (VALUES ('infinity'), ('-infinity')) AS v (expires_at);
SELECT n, outcome FROM (VALUES (1, '294276-12-31 23:59Z'::timestamptz), (2, '4713-01-02 BC')) AS v (n, expires_at),
    LATERAL payment_idem.create_order(:t1, 'm1', 'B34_o' || n, 1, 'USD', expires_at);
SELECT left(t.err('SELECT payment_idem.add_secret(t.id(''json''), ''default'', ''never valid at all'', ''-infinity'')'), 5) AS code;
SELECT payment_idem.add_secret(:t1, 'default', 'valid for ever', 'infinity') AS for_ever \gset
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'b34_s', '{"id":"b34_s","type":"ping"}', t.sign('{"id":"b34_s","type":"ping"}', 'valid for ever')) r;
SELECT payment_idem.retire_secret(:for_ever, '-infinity');
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'b34_s', '{"id":"b34_s","type":"ping"}', t.sign('{"id":"b34_s","type":"ping"}', 'valid for ever')) r;

SELECT * FROM payment_idem.check_invariants();
