-- The functions that set things up: the same call twice is one, other facts are refused, and every
-- fault of the caller comes with a SQLSTATE, a DETAIL and a HINT.
\set t1 't.id(''contract'')'

-- create_tenant: the same (name, tenant) again is the same tenant; it makes the partitions too.
SELECT payment_idem.create_tenant('contract', :t1) = :t1 AS made, payment_idem.create_tenant('contract', :t1) = :t1 AS again;
SELECT count(*) AS tenants FROM payment_idem.tenants WHERE tenant = :t1;
SELECT count(*) > 2 AS has_partitions FROM pg_inherits WHERE inhparent = 'payment_idem.transactions'::regclass;
SELECT payment_idem.create_tenant('same name') <> payment_idem.create_tenant('same name') AS a_key_of_its_own_each;

-- create_source: the same facts again are no change, also where a default is spelt out.
SELECT payment_idem.create_source(:t1, 'default', 'generic');
SELECT payment_idem.create_source(:t1, 'default', 'generic');
SELECT payment_idem.create_source(:t1, 'default', 'generic', '{"live_mode": true, "max_payload_bytes": 1048576, "http_status": {}}');
SELECT payment_idem.create_source(:t1, 'shop', 'generic', '{"merchant_id": "m1", "live_mode": false, "id_signed": true,
    "max_payload_bytes": 4096, "keep_payload": false, "tolerance_s": 60, "http_status": {"exception": 409, "rejected/too_large": 400}}');
SELECT source, gateway, merchant_id, live_mode, id_signed, max_payload_bytes, keep_payload, tolerance_s, http_status
FROM payment_idem.sources WHERE tenant = :t1 ORDER BY source;

-- add_secret: the same active secret again is the same one. Eight bytes are enough, whatever the characters.
SELECT payment_idem.add_secret(:t1, 'default', t.secret('contract')) AS s1 \gset
SELECT payment_idem.add_secret(:t1, 'default', t.secret('contract')) = :s1 AS same,
       payment_idem.add_secret(:t1, 'shop', t.secret('contract')) <> :s1 AS of_another_source,
       payment_idem.add_secret(:t1, 'default', 'ääää') <> :s1 AS another;
-- A line feed at its end is part of the secret.
SELECT payment_idem.add_secret(:t1, 'default', t.secret('contract') || E'\n') <> :s1 AS not_trimmed;
-- The same secret with an end gets this end, without one it is valid until retired.
SELECT payment_idem.add_secret(:t1, 'default', t.secret('contract'), now() + interval '1 day') = :s1 AS same;
SELECT valid_until > now() AS ends FROM payment_idem.signing_secrets WHERE secret_id = :s1;

-- Several secrets are valid at once; retire_secret ends one of them, and is idempotent.
\set ping '''{"id":"ping","type":"ping"}'''
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'ping', :ping, t.sign(:ping, t.secret('contract'))) r;
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'ping', :ping, t.sign(:ping, 'ääää')) r;
SELECT payment_idem.retire_secret(:s1);
SELECT payment_idem.retire_secret(:s1);
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'ping', :ping, t.sign(:ping, t.secret('contract'))) r;
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'ping', :ping, t.sign(:ping, 'ääää')) r;
-- A retired secret that is added again is a new one; retired at a later moment, it still holds now.
SELECT payment_idem.add_secret(:t1, 'default', t.secret('contract')) AS s2 \gset
SELECT :s2 <> :s1 AS a_new_one;
SELECT payment_idem.retire_secret(:s2, now() + interval '1 hour');
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'ping', :ping, t.sign(:ping, t.secret('contract'))) r;
-- An end is never moved to later by retiring.
SELECT payment_idem.retire_secret(:s1, now() + interval '1 hour');
SELECT valid_until <= now() AS still_ended FROM payment_idem.signing_secrets WHERE secret_id = :s1;

-- define_gateway: the same definition again changes nothing, another one counts as a version.
SELECT definition AS generic FROM payment_idem.gateways WHERE gateway = 'generic' \gset
SELECT payment_idem.define_gateway('contract', :'generic');
SELECT payment_idem.define_gateway('contract', :'generic');
SELECT version, built_in FROM payment_idem.gateways WHERE gateway = 'contract';
SELECT payment_idem.define_gateway('contract', jsonb_set(:'generic', '{description}', '"Another"'));
SELECT version, built_in FROM payment_idem.gateways WHERE gateway = 'contract';

-- A shipped definition that is changed is not the shipped one any more.
BEGIN;
SELECT payment_idem.define_gateway('generic', jsonb_set(:'generic', '{description}', '"Ours"'));
SELECT version, built_in FROM payment_idem.gateways WHERE gateway = 'generic';
ROLLBACK;

-- create_order: created, then existing; another amount or currency is a conflict and changes nothing.
CREATE FUNCTION pg_temp.facts() RETURNS TABLE (client_txn_id text, merchant_id text, amount_minor bigint, currency text,
                                               gateway_order_id text, expires text, mobiles text[])
LANGUAGE sql AS $$
    SELECT client_txn_id, merchant_id, amount_minor, currency, gateway_order_id, to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'),
           (SELECT array_agg(customer_mobile) FROM payment_idem.payloads p
            WHERE (p.tenant, p.order_id) = (o.tenant, o.order_id))
    FROM payment_idem.orders o WHERE tenant = t.id('contract') ORDER BY client_txn_id, merchant_id
$$;
SELECT outcome, status, order_id AS o1 FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD') \gset
SELECT :'outcome' AS outcome, :'status' AS status;
SELECT outcome, status, order_id = :'o1' AS same FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD');
SELECT outcome, status, order_id = :'o1' AS same FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.9900, 'usd');
SELECT outcome, status, order_id = :'o1' AS same FROM payment_idem.create_order(:t1, 'm1', 'O1', 20, 'USD');
SELECT outcome, status, order_id = :'o1' AS same FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'EUR');
SELECT outcome, status, order_id = :'o1' AS same FROM payment_idem.create_order(:t1, 'm2', 'O1', 19.99, 'USD');
SELECT * FROM pg_temp.facts();

-- Facts that were NULL are filled in once, each by itself, and never changed; a NULL later takes nothing away.
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD', gateway_order_id => 'G1');
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD', expires_at => '2099-01-01 00:00Z');
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD', customer_mobile => '+911234567890');
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD');
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD', '2099-01-01 00:00Z', 'G1', '+911234567890');
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD', gateway_order_id => 'G2');
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD', expires_at => '2099-01-02 00:00Z');
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O1', 19.99, 'USD', customer_mobile => '+910000000000');
SELECT * FROM pg_temp.facts() WHERE merchant_id = 'm1';
-- A conflict fills in nothing.
SELECT outcome FROM payment_idem.create_order(:t1, 'm2', 'O1', 20, 'USD', '2099-01-01 00:00Z', 'G9', '+911234567890');
SELECT * FROM pg_temp.facts() WHERE merchant_id = 'm2';
-- A gateway order id belongs to one order of the tenant.
SELECT outcome FROM payment_idem.create_order(:t1, 'm1', 'O2', 5, 'USD', gateway_order_id => 'G1');
SELECT outcome FROM payment_idem.create_order(:t1, 'm2', 'O1', 19.99, 'USD', gateway_order_id => 'G1');
SELECT * FROM pg_temp.facts();

-- Amounts are exact, in the decimals of their currency.
SELECT ord, amount, currency, t.order(:t1, ord, amount, currency) FROM (VALUES
    ('A1', 1.00, 'USD'), ('A2', 1.500, 'USD'), ('A3', 500, 'JPY'), ('A4', 500.0, 'JPY'), ('A5', 1.234, 'KWD'),
    ('A6', 0.0001, 'CLF'), ('A7', 92233720368547758.07, 'USD'), ('A8', 1e3, 'USD')) AS v (ord, amount, currency);
SELECT client_txn_id, amount_minor, currency FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id ~ '^A' ORDER BY 1;
-- 255 bytes are the longest identifier, in any script; no character but space and control is refused.
SELECT t.order(:t1, repeat('x', 255)), t.order(:t1, repeat('é', 127)), t.order(:t1, 'Æ"''\{}%;--');

-- What callers get wrong. Every line: SQLSTATE, message, then DETAIL and HINT.
CREATE TEMP TABLE wrong (n int GENERATED ALWAYS AS IDENTITY, call text);
INSERT INTO wrong (call) VALUES
    ($$create_tenant(NULL)$$),
    ($$create_tenant('x', NULL)$$),
    ($$create_tenant('')$$),
    ($$create_tenant('   ')$$),
    ($$create_tenant(repeat('x', 256))$$),
    ($$create_tenant(E'a\tb')$$),
    ($$create_tenant('x', '00000000-0000-0000-0000-000000000000')$$),
    ($$create_tenant('other name', t.id('contract'))$$),

    ($$create_source(NULL, 's', 'generic')$$),
    ($$create_source(t.id('contract'), NULL, 'generic')$$),
    ($$create_source(t.id('contract'), 's', NULL)$$),
    ($$create_source(t.id('contract'), 's', 'generic', NULL)$$),
    ($$create_source(t.id('nobody'), 's', 'generic')$$),
    ($$create_source(t.id('contract'), 's', 'nobody')$$),
    ($$create_source(t.id('contract'), '', 'generic')$$),
    ($$create_source(t.id('contract'), 'a b', 'generic')$$),
    ($$create_source(t.id('contract'), repeat('s', 256), 'generic')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '[]')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"livemode": true}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"live_mode": "yes"}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"merchant_id": ""}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"merchant_id": 7}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"max_payload_bytes": 0}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"max_payload_bytes": 1e12}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"tolerance_s": 0}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"tolerance_s": 1.5}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"http_status": {"paid": 200}}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"http_status": {"exception/late": 200}}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"http_status": {"exception": 99}}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"http_status": {"exception": 600}}')$$),
    ($$create_source(t.id('contract'), 's', 'generic', '{"http_status": {"exception": "409"}}')$$),
    ($$create_source(t.id('contract'), 'default', 'stripe')$$),
    ($$create_source(t.id('contract'), 'default', 'generic', '{"merchant_id": "m1"}')$$),
    ($$create_source(t.id('contract'), 'shop', 'generic')$$),

    ($$add_secret(NULL, 'default', 'long enough')$$),
    ($$add_secret(t.id('contract'), NULL, 'long enough')$$),
    ($$add_secret(t.id('contract'), 'default', NULL)$$),
    ($$add_secret(t.id('contract'), 'default', '')$$),
    ($$add_secret(t.id('contract'), 'default', repeat(' ', 20))$$),
    ($$add_secret(t.id('contract'), 'default', E'\t\n\t\n\t\n\t\n')$$),
    ($$add_secret(t.id('contract'), 'default', 'x')$$),
    ($$add_secret(t.id('contract'), 'default', '12345')$$),
    ($$add_secret(t.id('contract'), 'default', 'ää')$$),
    ($$add_secret(t.id('nobody'), 'default', 'long enough')$$),
    ($$add_secret(t.id('contract'), 'nowhere', 'long enough')$$),
    ($$add_secret(t.id('contract'), 'default', 'long enough', now() - interval '1 second')$$),
    ($$retire_secret(NULL)$$),
    ($$retire_secret(1, NULL)$$),
    ($$retire_secret(-1)$$),

    ($$define_gateway(NULL, '{}')$$),
    ($$define_gateway('g', NULL)$$),
    ($$define_gateway('', (SELECT definition FROM payment_idem.gateways WHERE gateway = 'generic'))$$),
    ($$define_gateway('g', '{}')$$),
    ($$define_gateway('g', '["d", {}, {}]')$$),
    ($$define_gateway('g', (SELECT definition || '{"colour": "red"}' FROM payment_idem.gateways WHERE gateway = 'generic'))$$),
    ($$define_gateway('g', (SELECT jsonb_set(definition, '{verify,signed_text}', '"{timestamp}"') FROM payment_idem.gateways WHERE gateway = 'generic'))$$),

    ($$create_order(NULL, 'm1', 'X', 1, 'USD')$$),
    ($$create_order(t.id('contract'), NULL, 'X', 1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', NULL, 1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', NULL, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, NULL)$$),
    ($$create_order(t.id('nobody'), 'm1', 'X', 1, 'USD')$$),
    ($$create_order(t.id('contract'), '', 'X', 1, 'USD')$$),
    ($$create_order(t.id('contract'), '   ', 'X', 1, 'USD')$$),
    ($$create_order(t.id('contract'), E'm\u00011', 'X', 1, 'USD')$$),
    ($$create_order(t.id('contract'), repeat('m', 256), 'X', 1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', '', 1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', ' X', 1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', E'X\n', 1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', E'X\u00a0', 1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', repeat('é', 128), 1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1.005, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 0.5, 'JPY')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1.0000001, 'KWD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 'NaN', 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 'Infinity', 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', '-Infinity', 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 0, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 0.00, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', -1, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 92233720368547758.08, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1e100, 'USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, 'XYZ')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, 'BTC')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, '')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, ' USD')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, 'US')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, E'\u0131nr')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, 'USD', gateway_order_id => '')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, 'USD', gateway_order_id => 'g 1')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, 'USD', gateway_order_id => repeat('g', 256))$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, 'USD', customer_mobile => '')$$),
    ($$create_order(t.id('contract'), 'm1', 'X', 1, 'USD', customer_mobile => repeat('1', 256))$$),

    ($$ingest(NULL, 'evt_1', 'x', 'x')$$),
    ($$ingest(t.id('contract'), 'evt_1', NULL::text, 'x')$$),
    ($$ingest(t.id('contract'), 'evt_1', NULL::bytea, 'x')$$),
    ($$ingest(t.id('contract'), 'evt_1', 'x', 'x', NULL)$$),
    ($$ingest(t.id('nobody'), 'evt_1', 'x', 'x')$$),
    ($$ingest(t.id('contract'), 'evt_1', 'x', 'x', 'nowhere')$$),
    ($$ingest(t.id('contract'), 'evt_1', 'x', NULL, headers => '[]')$$),

    ($$claim(NULL)$$),
    ($$claim('')$$),
    ($$claim(repeat('w', 256))$$),
    ($$claim('w', NULL)$$),
    ($$claim('w', 0)$$),
    ($$claim('w', -1)$$),
    ($$claim('w', 2000000000)$$),
    ($$claim('w', lease => NULL)$$),
    ($$claim('w', lease => '0 seconds')$$),
    ($$claim('w', lease => '-1 second')$$),
    ($$claim('w', lease => '178000000 years')$$),
    ($$claim('w', tenant => t.id('nobody'))$$),
    ($$ack(NULL)$$),
    ($$nack(NULL)$$),
    ($$nack(gen_random_uuid(), retry_after => '-1 second')$$),
    ($$nack(gen_random_uuid(), retry_after => '178000000 years')$$),
    ($$ensure_partitions(NULL)$$),
    ($$ensure_partitions(0)$$),
    ($$ensure_partitions(121)$$);
\pset format unaligned
\pset tuples_only on
SELECT call || E'\n    ' || replace(t.err('SELECT payment_idem.' || call), '|', E'\n    ') FROM wrong ORDER BY n;
\pset tuples_only off
\pset format aligned
-- None of these calls is let through, says nothing, or ends in an internal SQLSTATE.
SELECT call, t.err('SELECT payment_idem.' || call) FROM wrong
WHERE t.err('SELECT payment_idem.' || call) !~ '^(22004|22023|42501|42704|42710)\|[^|]+\|[^|]+\|[^|]+$' ORDER BY n;
-- No error repeats a secret.
SELECT count(*) AS errors_with_a_secret FROM wrong
WHERE call ~ '^add_secret' AND t.err('SELECT payment_idem.' || call) ~ 'long enough|12345|ää';
-- Nothing of that was written.
SELECT count(*) AS orders FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id LIKE '%X%' AND length(client_txn_id) < 9;
SELECT count(*) AS sources FROM payment_idem.sources WHERE tenant = :t1 AND source NOT IN ('default', 'shop');
SELECT count(*) AS tenants FROM payment_idem.tenants WHERE name = 'x';

SELECT * FROM payment_idem.check_invariants();
