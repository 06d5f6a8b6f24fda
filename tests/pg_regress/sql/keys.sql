-- The tables hold the rules by themselves: whoever writes past the functions, the owner too, is stopped.
\set t1 't.id(''keys'')'
SELECT t.tenant('keys') = :t1 AS tenant;
SELECT t.order(:t1, 'O1', gateway_order_id => 'G1'), t.order(:t1, 'O2'), t.order(:t1, 'O3');
SELECT t.say(:t1, 'evt_1', t.ev('paid', 'O1', more => '"utr":"U1"')) AS pays,
       t.say(:t1, 'evt_2', t.ev('paid', 'O1', pay => 'pi_2', id => 'evt_2')) AS second_payment,
       t.say(:t1, 'evt_1', t.ev('paid', 'O1')) AS other_bytes;

-- Tries to insert a copy of one of the tenant's rows with these columns changed: what is broken, or "no error".
CREATE FUNCTION pg_temp.copy(tablename text, change jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(t.breaks(format(
        'INSERT INTO payment_idem.%1$I SELECT (jsonb_populate_record(r, %2$L)).* FROM payment_idem.%1$I r '
        'WHERE tenant = %3$L ORDER BY r LIMIT 1', tablename, change, t.id('keys'))), '\d{4}_\d\d', 'YYYY_MM')
$$;

-- Event identity, the seed's primary key: (tenant, source, identity), and one number per event.
SELECT change, pg_temp.copy('event_receipts', change) FROM (VALUES
    ('{"receipt": -1}'::jsonb),
    ('{"identity": "evt_x", "event_id": "evt_x"}'),
    ('{"identity": "evt_x", "event_id": "evt_y", "receipt": -1}'),
    ('{"identity": "evt_x", "event_id": "evt_x", "receipt": -1, "identity_kind": "odd"}'),
    ('{"identity": "evt_x", "event_id": "evt_x", "receipt": -1, "outcome": "odd"}'),
    ('{"identity": "evt_x", "event_id": "evt_x", "receipt": -1, "outcome": "parked"}'),
    ('{"identity": "evt_x", "event_id": "evt_x", "receipt": -1, "processed_at": null}'),
    ('{"identity": "evt_x", "event_id": "evt_x", "receipt": -1, "payload_sha256": "\\x00"}'),
    ('{"identity": "evt_x", "event_id": "evt_x", "receipt": -1, "tenant": null}'),
    ('{"identity": null}')) AS v (change);

-- Orders: unique per (tenant, merchant, client_txn_id); money and status agree.
SELECT change, pg_temp.copy('orders', change) FROM (VALUES
    ('{"order_id": "00000000-0000-4000-8000-00000000000f"}'::jsonb),
    ('{"client_txn_id": "O9"}'),
    ('{"client_txn_id": "O9", "order_id": "00000000-0000-4000-8000-00000000000f", "amount_minor": 0}'),
    ('{"client_txn_id": "O9", "order_id": "00000000-0000-4000-8000-00000000000f", "amount_minor": -1}'),
    ('{"client_txn_id": "O9", "order_id": "00000000-0000-4000-8000-00000000000f", "currency": "usd"}'),
    ('{"client_txn_id": "O9", "order_id": "00000000-0000-4000-8000-00000000000f", "paid_minor": 999}'),
    ('{"client_txn_id": "O9", "order_id": "00000000-0000-4000-8000-00000000000f", "refunded_minor": 1001}'),
    ('{"client_txn_id": "O9", "order_id": "00000000-0000-4000-8000-00000000000f", "ledger_head": null}'),
    ('{"client_txn_id": "O9", "order_id": "00000000-0000-4000-8000-00000000000f", "merchant_id": null}')) AS v (change);

-- Ledger: one line per event and kind, one line per place in the order's chain.
SELECT change, pg_temp.copy('transactions', change) FROM (VALUES
    ('{"seq": 2, "prev_hash": "\\x0000000000000000000000000000000000000000000000000000000000000000"}'::jsonb),
    ('{"receipt": -1}'),
    ('{"receipt": -1, "seq": 2}'),
    ('{"receipt": -1, "seq": 0, "prev_hash": "\\x0000000000000000000000000000000000000000000000000000000000000000"}'),
    ('{"receipt": -1, "order_id": "00000000-0000-4000-8000-00000000000f", "hash": "\\x00"}'),
    ('{"receipt": -1, "order_id": "00000000-0000-4000-8000-00000000000f", "chain_version": 2}'),
    ('{"receipt": -1, "order_id": "00000000-0000-4000-8000-00000000000f", "created_at": null}')) AS v (change);

-- Payment references, meeting rows, outbox, exceptions.
SELECT tablename, change, pg_temp.copy(tablename, change) FROM (VALUES
    ('payment_references', '{}'::jsonb),
    ('payment_references', '{"order_id": "00000000-0000-4000-8000-00000000000f"}'),
    ('payment_references', '{"value": "x", "state": "odd"}'),
    ('order_keys', '{}'),
    ('order_keys', '{"value": "x", "kind": "odd"}'),
    ('order_keys', '{"value": "x", "kind": "client_txn", "order_id": "00000000-0000-4000-8000-00000000000f"}'),
    ('outbox', '{}'),
    ('outbox', '{"receipt": -1, "action": ""}'),
    ('outbox', '{"receipt": -1, "lease_until": "2026-01-01"}'),
    ('outbox', '{"receipt": -1, "attempts": -1}'),
    ('exceptions', '{}'),
    ('exceptions', '{"exception_id": -1, "kind": "odd"}'),
    ('exceptions', '{"exception_id": -1, "resolution": "refunded"}'),
    ('exceptions', '{"exception_id": -1, "order_id": "00000000-0000-4000-8000-00000000000f"}'),
    ('sources', '{}'),
    ('sources', '{"source": ""}'),
    ('sources', '{"source": "x", "gateway": "nobody"}'),
    ('sources', '{"source": "x", "max_payload_bytes": 0}'),
    ('sources', '{"source": "x", "tolerance_s": 0}'),
    ('tenants', '{}'),
    ('tenants', '{"tenant": "00000000-0000-0000-0000-000000000000"}'),
    ('tenants', '{"tenant": "00000000-0000-4000-8000-00000000000f", "name": "  "}'),
    ('tenants', '{"tenant": "00000000-0000-4000-8000-00000000000f", "bank_reference_scope": "odd"}')) AS v (tablename, change);
SELECT statement, t.breaks(statement) FROM (VALUES
    ('INSERT INTO payment_idem.anomalies (tenant, source, kind, identity, payload_sha256, noticed_at) '
     'SELECT tenant, source, kind, identity, payload_sha256, now() FROM payment_idem.anomalies WHERE tenant = t.id(''keys'')'),
    ('INSERT INTO payment_idem.signing_secrets (tenant, source, secret) VALUES (t.id(''keys''), ''default'', ''12345'')'),
    ('INSERT INTO payment_idem.signing_secrets (tenant, source, secret) VALUES (t.id(''keys''), ''default'', ''          '')'),
    ('INSERT INTO payment_idem.signing_secrets (tenant, source, secret) VALUES (t.id(''keys''), ''nowhere'', ''12345678'')'),
    ('INSERT INTO payment_idem.role_grants (role_name, profile) VALUES (''postgres'', ''odd'')'),
    ('INSERT INTO payment_idem.role_grants (role_name, profile) VALUES (''x'', ''admin''), (''x'', ''admin'')'),
    ('INSERT INTO payment_idem.role_grants (role_name, profile, tenant) VALUES (''x'', ''admin'', t.id(''nobody''))'),
    ('INSERT INTO payment_idem.currencies (currency, exponent) VALUES (''usd'', 2)'),
    ('INSERT INTO payment_idem.currencies (currency, exponent) VALUES (''QQQ'', 9)'),
    ('INSERT INTO payment_idem.transition_rules SELECT * FROM payment_idem.transition_rules'),
    ('INSERT INTO payment_idem.transition_rules VALUES (t.id(''keys''), ''payment_failed'', ''FAILED'', ''FAILED'')'),
    ('DELETE FROM payment_idem.gateways WHERE gateway = ''generic'''),
    ('DELETE FROM payment_idem.sources WHERE tenant = t.id(''keys'')'),
    ('DELETE FROM payment_idem.tenants WHERE tenant = t.id(''keys'')')) AS v (statement);

-- What the catalog says of the keys. No key of a receipt contains a time (nor does any other unique key).
SELECT indexrelid::regclass AS unique_key_with_a_time
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
WHERE c.relnamespace = 'payment_idem'::regnamespace AND i.indisunique AND a.atttypid IN ('timestamptz'::regtype, 'date'::regtype);
-- Every indexed text compares by bytes, whatever the database's locale is and becomes.
SELECT i.indexrelid::regclass AS index_with_a_locale
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid, unnest(i.indcollation) AS indexed_by
WHERE c.relnamespace = 'payment_idem'::regnamespace AND indexed_by NOT IN (0, '"C"'::regcollation);
-- No event locks a row of tenants, sources or gateways.
SELECT conrelid::regclass AS hot_table, confrelid::regclass AS refers_to FROM pg_constraint
WHERE contype = 'f' AND confrelid IN ('payment_idem.tenants'::regclass, 'payment_idem.sources'::regclass,
                                      'payment_idem.gateways'::regclass)
  AND conrelid NOT IN ('payment_idem.sources'::regclass, 'payment_idem.signing_secrets'::regclass,
                       'payment_idem.role_grants'::regclass);

-- B71: the ledger is append-only, for its owner too, on the parent and on each partition.
SELECT tableoid::regclass AS part FROM payment_idem.transactions WHERE tenant = :t1 \gset
CREATE TEMP TABLE tampering (what text, statement text);
INSERT INTO tampering VALUES
    ('update', 'UPDATE payment_idem.transactions SET amount_minor = 1'),
    ('update of a partition', format('UPDATE %s SET amount_minor = 1', :'part')),
    ('update of nothing', 'UPDATE payment_idem.transactions SET amount_minor = amount_minor'),
    ('move to another month', 'UPDATE payment_idem.transactions SET created_at = ''2999-01-01'''),
    ('delete', 'DELETE FROM payment_idem.transactions'),
    ('delete in a partition', format('DELETE FROM %s', :'part')),
    ('truncate', 'TRUNCATE payment_idem.transactions'),
    ('truncate of a partition', format('TRUNCATE %s', :'part')),
    ('truncate with orders', 'TRUNCATE payment_idem.orders, payment_idem.transactions CASCADE'),
    ('on conflict update', format('INSERT INTO %1$s SELECT * FROM %1$s WHERE tenant = t.id(''keys'') '
                                  'ON CONFLICT (tenant, receipt, kind) DO UPDATE SET amount_minor = 1', :'part')),
    ('merge update', 'MERGE INTO payment_idem.transactions l USING (SELECT 1) x ON l.tenant = t.id(''keys'') '
                     'WHEN MATCHED THEN UPDATE SET amount_minor = 1'),
    ('merge delete', 'MERGE INTO payment_idem.transactions l USING (SELECT 1) x ON l.tenant = t.id(''keys'') '
                     'WHEN MATCHED THEN DELETE'),
    ('delete of a paid order', 'DELETE FROM payment_idem.orders WHERE client_txn_id = ''O1'' AND tenant = t.id(''keys'')'),
    ('truncate of orders', 'TRUNCATE payment_idem.orders CASCADE');
SET client_min_messages = warning; -- TRUNCATE ... CASCADE announces itself
BEGIN;
SELECT what, t.breaks(statement) FROM tampering;
SELECT regexp_replace(t.err('DELETE FROM payment_idem.transactions'), '\d{4}_\d\d', 'YYYY_MM') AS says;
-- A session that plays replica gets no further.
SET session_replication_role = replica;
SELECT what, t.breaks(statement) FROM tampering;
RESET session_replication_role;
-- Nothing of that left a trace.
SELECT amount_minor, seq FROM payment_idem.transactions WHERE tenant = :t1;
SELECT client_txn_id, status FROM payment_idem.orders WHERE tenant = :t1 ORDER BY 1;
ROLLBACK;
RESET client_min_messages;
-- An order without money history may go.
BEGIN;
DELETE FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id = 'O3';
ROLLBACK;
-- Appending is the owner's right; a forged line shows.
BEGIN;
COPY payment_idem.transactions (tenant, receipt, kind, order_id, seq, event_type, amount_minor, currency, from_status,
    to_status, source, created_at, chain_version, hash) FROM stdin;
00000000-0000-4000-8000-00000000000f	-1	payment_succeeded	00000000-0000-4000-8000-00000000000f	1	WEBHOOK_RECEIVED	5	USD	PENDING	COMPLETED	default	2026-01-01	1	\\x0000000000000000000000000000000000000000000000000000000000000000
\.
SELECT count(*) > 0 AS forgery_shows FROM payment_idem.check_invariants();
ROLLBACK;
-- What a superuser can still do, shows: each of these is undone after the look.
BEGIN;
ALTER TABLE :part DISABLE TRIGGER USER;
UPDATE :part SET amount_minor = 999 WHERE tenant = :t1;
SELECT count(*) > 0 AS changed_amount_shows FROM payment_idem.check_invariants();
ROLLBACK;
BEGIN;
ALTER TABLE :part DISABLE TRIGGER USER;
UPDATE :part SET bank_utr = NULL WHERE tenant = :t1;
SELECT count(*) > 0 AS changed_reference_shows FROM payment_idem.check_invariants();
ROLLBACK;
BEGIN;
ALTER TABLE :part DISABLE TRIGGER USER;
DELETE FROM :part WHERE tenant = :t1;
SELECT count(*) > 0 AS deleted_line_shows FROM payment_idem.check_invariants();
ROLLBACK;
BEGIN;
ALTER TABLE payment_idem.transactions DETACH PARTITION :part;
SELECT count(*) > 0 AS missing_month_shows FROM payment_idem.check_invariants();
ROLLBACK;
BEGIN;
UPDATE payment_idem.orders SET status = 'PENDING' WHERE tenant = :t1 AND client_txn_id = 'O1';
SELECT count(*) > 0 AS reopened_order_shows FROM payment_idem.check_invariants();
ROLLBACK;
BEGIN;
DELETE FROM payment_idem.event_receipts WHERE tenant = :t1 AND identity = 'evt_1';
SELECT count(*) > 0 AS deleted_receipt_shows FROM payment_idem.check_invariants();
ROLLBACK;

-- B107: months follow one another without hole or overlap, on UTC bounds, in whatever zone they are made.
CREATE FUNCTION pg_temp.bounds(parent text)
RETURNS TABLE (part name, lower_bound timestamptz, upper_bound timestamptz) LANGUAGE sql AS $$
    SELECT c.relname, (regexp_match(bound, $re$FROM \('([^']+)'\)$re$))[1]::timestamptz,
                      (regexp_match(bound, $re$TO \('([^']+)'\)$re$))[1]::timestamptz
    FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid, pg_get_expr(relpartbound, c.oid) AS bound
    WHERE inhparent = ('payment_idem.' || parent)::regclass
$$;
CREATE VIEW pg_temp.cover AS
SELECT parent, count(*) >= 5 AS some_months,
       count(*) FILTER (WHERE lower_bound IS NULL) = 1 AND count(*) FILTER (WHERE upper_bound IS NULL) = 1 AS all_of_time,
       bool_and(upper_bound IS NOT DISTINCT FROM next_lower) AS contiguous,
       bool_and(lower_bound AT TIME ZONE 'UTC' = date_trunc('month', lower_bound AT TIME ZONE 'UTC')) AS utc_months,
       bool_and(part IN (parent || to_char(lower_bound AT TIME ZONE 'UTC', '_YYYY_MM'), parent || '_open'))
           FILTER (WHERE lower_bound IS NOT NULL) AS named_by_month
FROM (SELECT parent, b.*, lead(lower_bound) OVER (PARTITION BY parent ORDER BY lower_bound NULLS FIRST) AS next_lower
      FROM (VALUES ('transactions'), ('payloads')) AS v (parent), pg_temp.bounds(parent) b) AS x
GROUP BY parent;
SELECT * FROM pg_temp.cover ORDER BY parent;
SET TimeZone = 'Europe/Madrid';
SELECT payment_idem.ensure_partitions(14) > 0 AS made, payment_idem.ensure_partitions(14) AS again, payment_idem.ensure_partitions(3) AS fewer;
SELECT * FROM pg_temp.cover ORDER BY parent;
SET TimeZone = 'Asia/Amman';
SET DateStyle = 'SQL, DMY';
SELECT payment_idem.ensure_partitions(28) > 0 AS made, payment_idem.ensure_partitions(28) AS again;
SELECT * FROM pg_temp.cover ORDER BY parent;
RESET DateStyle;
RESET TimeZone;
-- Both switches of a whole year are among them.
SELECT count(*) >= 28 AS months FROM pg_temp.bounds('transactions') WHERE lower_bound > now();
SELECT n, split_part(t.err(format('SELECT payment_idem.ensure_partitions(%s)', n)), '|', 1) AS code,
       t.err(format('SELECT payment_idem.ensure_partitions(%s)', n)) ~ '^\w{5}(\|[^|]+){3}$' AS has_detail_and_hint
FROM (VALUES ('0'), ('-1'), ('121'), ('NULL')) AS v (n);

-- No moment is without a partition.
CREATE FUNCTION pg_temp.lines_at(VARIADIC moments text[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO payment_idem.transactions
    SELECT (jsonb_populate_record(l, jsonb_build_object('created_at', moment, 'receipt', -n,
                                                        'order_id', format('00000000-0000-4000-8000-%s', lpad(n::text, 12, '0'))))).*
    FROM payment_idem.transactions l, unnest(moments) WITH ORDINALITY AS u (moment, n) WHERE tenant = t.id('keys')
$$;
BEGIN;
SELECT pg_temp.lines_at('4713-01-02 BC', '1970-01-01', '2999-12-31');
SELECT receipt, tableoid::regclass::text LIKE '%\_open' AS in_the_open_one FROM payment_idem.transactions
WHERE tenant = :t1 AND receipt < 0 ORDER BY receipt DESC;
-- B105: rows that were ahead of the months stay where they can be found, and months can be made again.
SELECT payment_idem.ensure_partitions(40) > 0 AS made, payment_idem.ensure_partitions(40) AS again;
SELECT all_of_time, contiguous FROM pg_temp.cover WHERE parent = 'transactions';
SELECT count(*) AS still_there FROM payment_idem.transactions WHERE tenant = :t1 AND receipt < 0;
ROLLBACK;
-- What is no moment has no month, and is refused.
SELECT t.breaks($$SELECT pg_temp.lines_at('infinity')$$) AS infinity, t.breaks($$SELECT pg_temp.lines_at('-infinity')$$) AS minus_infinity;

-- Upkeep, for any scheduler. It commits by itself, so not within a transaction.
CALL payment_idem.maintain();
SHOW lock_timeout;
\set VERBOSITY terse
BEGIN;
CALL payment_idem.maintain();
ROLLBACK;
\set VERBOSITY default
SELECT * FROM pg_temp.cover ORDER BY parent;

SELECT * FROM payment_idem.check_invariants();
