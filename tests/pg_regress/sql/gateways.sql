-- Gateways as data: what a definition can say, seen from SQL. Each is made here, and none by the name of a real one.
SELECT t.tenant('gateways') AS tenant \gset

-- A definition in the tests' own shape: verify and event members that differ are given.
CREATE FUNCTION t.gateway(name text, verify jsonb DEFAULT '{}', event jsonb DEFAULT '{}', more jsonb DEFAULT '{}') RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM payment_idem.define_gateway(name, jsonb_build_object(
        'description', name,
        'verify', jsonb_strip_nulls('{"method": "hmac-sha256", "signed_text": "{body}",
                   "signature": {"from": ["header:X-Signature"], "encoding": "hex"}}'::jsonb || verify),
        'event', '{"id": ["/id"], "type": ["/type"], "order_reference": ["/order"], "gateway_order_id": ["/gateway_order_id"],
                   "amount": {"from": ["/amount"], "unit": "minor"}, "currency": ["/currency"],
                   "references": [{"kind": "payment", "from": ["/payment"]}],
                   "kinds": [{"kind": "payment_succeeded", "types": ["paid"]}, {"kind": "payment_failed", "types": ["failed"]}]}'::jsonb
                  || event) || more);
    RETURN (SELECT concat_ws(' ', 'version', version, CASE WHEN covers_body THEN 'covers the body' ELSE 'does not cover the body' END)
            FROM payment_idem.gateways WHERE gateway = name);
END $$;
CREATE FUNCTION t.source(gateway text, options jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
    SELECT payment_idem.create_source(t.id('gateways'), gateway, gateway, options);
    SELECT payment_idem.add_secret(t.id('gateways'), gateway, t.secret('gateways'));
$$;
CREATE FUNCTION t.sign(body text) RETURNS text LANGUAGE sql AS $$SELECT t.sign(body, t.secret('gateways'))$$;
CREATE FUNCTION t.come(gateway text, body text, sig text DEFAULT NULL, headers jsonb DEFAULT NULL, event_id text DEFAULT NULL)
RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', r.event_id, t.says(r))
    FROM payment_idem.ingest(t.id('gateways'), event_id, body, coalesce(sig, t.sign(body)), gateway, headers) AS r
$$;

\echo A definition: added, unchanged, changed, and what it leaves out is said
SELECT t.gateway('plain');
SELECT t.gateway('plain');
SELECT t.gateway('plain', event => '{"live_mode": ["/live"]}');
SELECT t.gateway('token', '{"method": "token", "signed_text": null, "signature": {"from": ["header:X-Token"]}}');
SELECT t.gateway('partly', '{"signed_text": "{/id}.{/amount}"}');
SELECT gateway, remark FROM payment_idem.gateways, unnest(remarks) AS remark WHERE gateway IN ('plain', 'token', 'partly') ORDER BY 1, 2;

\echo What is shipped and does not cover the body says why
SELECT gateway, covers_body, cardinality(remarks) > 0 AS remarks FROM payment_idem.gateways
WHERE built_in AND (NOT covers_body OR remarks <> '{}') ORDER BY gateway;

\echo Definitions that could never work
SELECT t.err(format('SELECT t.gateway(%L, %L)', 'never', verify)) FROM unnest(ARRAY[
    '{"signed_text": "{body"}', '{"signed_text": "{bdy}"}', '{"signed_text": "{cookie:x}"}', '{"signed_text": "{timestamp}.{body}"}',
    '{"signed_text": "{secret}{body}"}', '{"method": "sha256"}', '{"method": "token"}', '{"method": "rsa-sha256"}',
    '{"method": "hmac-md4"}', '{"iv": "0123456789012345"}', '{"per_item": true}', '{"key": "pem"}', '{"surprise": 1}',
    '{"signature": {"from": [], "encoding": "hex"}}', '{"signature": {"from": ["X-Signature"], "encoding": "hex"}}',
    '{"signature": {"from": ["header:X-Signature"]}}',
    '{"signature": {"from": ["header:X-Signature"], "encoding": "hex", "format": {"list": {"separator": ""}}}}',
    '{"signed_text": "{timestamp}{body}", "timestamp": {"from": ["header:X-Time"], "unit": "s"}}'
]) AS verify;

\echo A source has to know what is signed beside the request
SELECT t.gateway('with_urls', '{"signed_text": [{"if_present": "{parameter:prefix}"}, "{parameter:notification_url}{body}"]}');
SELECT payment_idem.create_source(:'tenant', 'without_url', 'with_urls', '{"parameters": {"url": "https://shop.example/hook"}}');
SELECT payment_idem.create_source(:'tenant', 'with_url_and_all', 'with_urls', '{"parameters": {"notification_url": "https://shop.example/hook"}}');

\echo B38: a currency whose minor unit the gateway counts its own way
SELECT t.gateway('cents', event => '{"amount": {"from": ["/amount"], "unit": "minor", "exponents": {"UGX": 2}}}'), t.source('cents');
SELECT t.gateway('no_cents'), t.source('no_cents');
SELECT t.order(:'tenant', 'UGX' || n, 5, 'UGX') FROM generate_series(1, 5) AS n;
SELECT gateway, amount, t.come(gateway, t.ev('paid', ord, amount, 'UGX', 'ugx' || ord, 'ugx' || ord))
FROM (VALUES ('cents', '500', 'UGX1'), ('cents', '5', 'UGX2'), ('cents', '501', 'UGX3'), ('no_cents', '5', 'UGX4'), ('no_cents', '500', 'UGX5'))
     AS v (gateway, amount, ord);
\echo B36, B40: major units, as numbers and as texts
SELECT t.gateway('major', event => '{"amount": {"from": ["/amount"], "unit": "major"}}'), t.source('major');
SELECT t.order(:'tenant', 'M' || n, amount, currency)
FROM (VALUES (1, 599.80, 'USD'), (2, 8.20, 'USD'), (3, 500, 'JPY'), (4, 1.15, 'USD'), (5, 1.5, 'KWD'), (6, 10, 'USD'), (7, 10, 'USD'))
     AS v (n, amount, currency);
SELECT amount, currency, t.come('major', t.ev('paid', 'M' || n, amount, currency, 'm' || n, 'm' || n || amount))
FROM (VALUES (1, '599.80', 'usd'), (2, '"8.2"', 'USD'), (3, '500', 'JPY'), (3, '500.5', 'JPY'), (4, '1.155', 'USD'), (4, '"1.15"', 'USD'),
             (5, '1.500', 'KWD'), (6, '1e1', 'USD'), (6, '"1,0"', 'USD'), (6, '10', 'BTC'), (7, '10.00', NULL)) AS v (n, amount, currency);

\echo A bundle: an event, a receipt and a row per item, however they are bundled
SELECT t.gateway('bundle', more => '{"items": "/events/*"}'), t.source('bundle');
SELECT t.order(:'tenant', 'B1'), t.order(:'tenant', 'B2');
CREATE FUNCTION t.bundle(VARIADIC events text[]) RETURNS text LANGUAGE sql AS
    $$SELECT '{"events": [' || array_to_string(events, ', ') || ']}'$$;
SELECT t.ev('paid', 'B1', id => 'b1', pay => 'pb1') AS b1, t.ev('paid', 'B2', id => 'b2', pay => 'pb2') AS b2,
       t.ev('failed', 'B2', id => 'b3', pay => NULL) AS b3 \gset
SELECT * FROM t.come('bundle', t.bundle(:'b1', '{"id": "broken", "type": 7}', :'b2'));
SELECT * FROM t.come('bundle', t.bundle(:'b2', :'b3', :'b1'));
SELECT * FROM t.come('bundle', t.bundle(:'b3', replace(:'b1', '1000', '1001')));
SELECT * FROM t.come('bundle', '{"events": []}');
SELECT * FROM t.come('bundle', '{"event": []}');
SELECT item, event_id, outcome, reason FROM payment_idem.ingest_batch(:'tenant', NULL,
    ARRAY[t.bundle(:'b1', :'b2'), 'no JSON', t.bundle(:'b3')],
    ARRAY[t.sign(t.bundle(:'b1', :'b2')), t.sign('no JSON'), t.sign(t.bundle(:'b3'))], 'bundle');
\echo Items that are signed one by one: a bad one spoils none
SELECT t.gateway('signed_items', '{"per_item": true, "signed_text": "{/id}:{/order}:{/amount}:{/currency}:{/type}",
                                   "signature": {"from": ["/sig"], "encoding": "hex"}}', more => '{"items": "/events/*"}'), t.source('signed_items');
SELECT t.order(:'tenant', 'I' || n) FROM generate_series(1, 3) AS n;
CREATE FUNCTION t.signed_item(id text, ord text, amount text DEFAULT '1000', signed_amount text DEFAULT '1000') RETURNS text LANGUAGE sql AS $$
    SELECT t.ev('paid', ord, amount, 'usd', 'p' || id, id, '"sig":' || to_json(t.sign(concat_ws(':', id, ord, signed_amount, 'usd', 'paid'))))
$$;
SELECT r.event_id, t.says(r) FROM payment_idem.ingest(:'tenant', NULL,
    t.bundle(t.signed_item('i1', 'I1'), t.signed_item('i2', 'I2', '1000', '999'), t.signed_item('i3', 'I3')), NULL, 'signed_items') AS r;
SELECT r.event_id, t.says(r) FROM payment_idem.ingest(:'tenant', NULL, t.bundle(t.signed_item('i2', 'I2')), NULL, 'signed_items') AS r;
SELECT r.event_id, t.says(r) FROM payment_idem.ingest(:'tenant', NULL, '{"events": [7]}', NULL, 'signed_items') AS r;
\echo An item of another shape spoils none, either
SELECT t.gateway('deep_items', '{"per_item": true, "signed_text": "{/id}", "signature": {"from": ["/sig"], "encoding": "hex"}}',
                 more => '{"items": "/events/*/item"}'), t.source('deep_items');
SELECT r.event_id, t.says(r) FROM payment_idem.ingest(:'tenant', NULL,
    format('{"events": [{"item": {"id": "d1", "type": "ping", "sig": "%s"}}, {"odd": 1}, 7]}', t.sign('d1')), NULL, 'deep_items') AS r;

\echo A thin event waits for its facts, and asks a worker to fetch them
SELECT t.gateway('thin', event => '{"kinds": [{"kind": "payment_succeeded", "types": ["paid"], "details": "fetch"}]}'), t.source('thin');
SELECT * FROM t.come('thin', '{"id": "t1", "type": "paid", "gateway_order_id": "TG1", "payment": "tp1"}');
SELECT * FROM t.come('thin', '{"id": "t1", "type": "paid", "gateway_order_id": "TG1", "payment": "tp1"}');
SELECT t.order(:'tenant', 'T1', gateway_order_id => 'TG1') AS the_order_alone_tells_nothing;
SELECT action, order_id, seq, event_id, kind, client_txn_id, gateway_order_id, payment_refs
FROM payment_idem.claim('w', 10, actions => '{fetch_status}', tenant => :'tenant');
SELECT count(*) AS parked FROM payment_idem.event_receipts WHERE tenant = :'tenant' AND outcome = 'parked' AND reason = 'awaiting_details';

\echo An id in an unsigned header identifies nothing: the bytes do
SELECT t.gateway('unsigned_id', event => '{"id": ["header:X-Event-Id"]}'), t.source('unsigned_id');
SELECT t.order(:'tenant', 'U1');
SELECT t.ev('paid', 'U1', pay => 'pu1') AS u1, t.ev('ping', NULL) AS old, t.ev('ping', 'U2') AS older \gset
SELECT * FROM t.come('unsigned_id', :'old', headers => '{"X-Event-Id": "no id at all"}') AS what_anybody_wrote;
SELECT * FROM t.come('unsigned_id', :'older', headers => '{"X-Event-Id": "id_of_u1"}') AS a_true_id_spoiled;
SELECT * FROM t.come('unsigned_id', :'u1', headers => '{"X-Event-Id": "id_of_u1"}') AS the_true_event;
SELECT * FROM t.come('unsigned_id', :'u1', headers => '{"X-Event-Id": "another_id"}') AS replayed_under_another_id;
SELECT kind, claimed_id FROM payment_idem.anomalies WHERE tenant = :'tenant' AND source = 'unsigned_id' ORDER BY anomaly_id;

\echo An event that would change nothing need not have an id (subscriptions at Paystack have none)
SELECT t.gateway('ids'), t.source('ids');
SELECT * FROM t.come('ids', '{"type": "subscription.create", "code": "SUB_1"}');
SELECT * FROM t.come('ids', '{"type": "subscription.create", "code": "SUB_1"}');
SELECT * FROM t.come('ids', '{"type": "ping"}', event_id => 'the_callers_own');
SELECT * FROM t.come('ids', '{"type": "paid", "order": "U1", "amount": 1000, "currency": "usd"}');

\echo P7: an id that several events share, such as that of a payment, identifies none of them
SELECT t.gateway('shared_id', event => '{"id": ["/payment"], "id_identifies": false}'), t.source('shared_id');
SELECT t.order(:'tenant', 'Y1');
SELECT * FROM t.come('shared_id', t.ev('pending', 'Y1', pay => 'py1'));
SELECT * FROM t.come('shared_id', t.ev('paid', 'Y1', pay => 'py1'));
SELECT * FROM t.come('shared_id', t.ev('paid', 'Y1', pay => 'py1'));
SELECT * FROM t.come('shared_id', t.ev('failed', 'Y1', pay => 'py1'), event_id => 'the_callers_own');
SELECT count(*) AS anomalies FROM payment_idem.anomalies WHERE tenant = :'tenant' AND source = 'shared_id';
\echo ... whatever the source says of it
SELECT payment_idem.create_source(:'tenant', 'shared_too', 'shared_id', '{"id_signed": true}');
SELECT payment_idem.add_secret(:'tenant', 'shared_too', t.secret('gateways')) > 0 AS added;
SELECT t.order(:'tenant', 'Y2');
SELECT * FROM t.come('shared_too', t.ev('pending', 'Y2', pay => 'py2'));
SELECT * FROM t.come('shared_too', t.ev('paid', 'Y2', pay => 'py2'));

\echo P7: a type outside the body makes other events of the same bytes
SELECT t.gateway('topics', event => '{"id": [], "type": ["header:X-Topic"]}'), t.source('topics');
SELECT t.order(:'tenant', 'K1');
SELECT t.ev('whatever', 'K1', pay => 'pk1') AS k1 \gset
SELECT * FROM t.come('topics', :'k1') AS no_topic;
SELECT * FROM t.come('topics', :'k1', headers => '{"X-Topic": "created"}') AS one_topic;
SELECT * FROM t.come('topics', :'k1', headers => '{"X-Topic": "paid"}') AS another_topic;
SELECT * FROM t.come('topics', :'k1', headers => '{"x-topic": "paid"}') AS again;

\echo A header that is part of the signed text is signed, and so is the id in it
SELECT t.gateway('signed_id', '{"signed_text": "{id}.{body}", "id": ["header:X-Event-Id"]}', '{"id": ["header:X-Event-Id"]}'), t.source('signed_id');
SELECT t.order(:'tenant', 'H1');
SELECT t.ev('paid', 'H1', pay => 'ph1') AS h1 \gset
SELECT * FROM t.come('signed_id', :'h1', t.sign('h1.' || :'h1'), '{"x-event-id": "h1"}');
SELECT * FROM t.come('signed_id', replace(:'h1', '1000', '1001'), t.sign('h1.' || replace(:'h1', '1000', '1001')), '{"x-event-id": "h1"}');
SELECT * FROM t.come('signed_id', :'h1', t.sign('h1.' || :'h1'), '{"x-event-id": "h2"}');
SELECT * FROM t.come('signed_id', :'h1', t.sign('h1.' || :'h1'));

\echo A configured parameter is signed along; without it nothing can be compared
SELECT t.gateway('with_url', '{"signed_text": "{parameter:url}{body}"}'), t.source('with_url', '{"parameters": {"url": "https://shop.example/hook"}}');
SELECT * FROM t.come('with_url', t.ev('ping', NULL, id => 'url1'), t.sign('https://shop.example/hook' || t.ev('ping', NULL, id => 'url1')));
SELECT * FROM t.come('with_url', t.ev('ping', NULL, id => 'url2'), t.sign('http://shop.example/hook' || t.ev('ping', NULL, id => 'url2')));
UPDATE payment_idem.sources SET parameters = '{}' WHERE tenant = :'tenant' AND source = 'with_url';
SELECT * FROM t.come('with_url', t.ev('ping', NULL, id => 'url3'));
SELECT t.err($$SELECT payment_idem.create_source(t.id('gateways'), 'x', 'with_url', '{"parameters": {"url": ""}}')$$);
SELECT t.err($$SELECT payment_idem.create_source(t.id('gateways'), 'x', 'with_url', '{"parameters": {"url": 7}}')$$);

\echo A form, sorted and joined, as many gateways sign it
SELECT t.gateway('form', '{"signed_text": [{"fields": {"of": "form", "except": ["sign"], "each": "{key}={value}", "join": "&", "skip_empty": true}}],
                           "signature": {"from": ["form:sign"], "encoding": "hex"}}',
    '{"id": ["form:trade_no"], "type": ["form:status"], "order_reference": ["form:out_trade_no"], "gateway_order_id": [],
      "amount": {"from": ["form:total"], "unit": "major"}, "currency": ["text:USD"], "references": [{"kind": "payment", "from": ["form:trade_no"]}]}'),
    t.source('form');
SELECT t.order(:'tenant', 'F1');
SELECT 'out_trade_no=F1&status=paid&total=10.00&trade_no=n1' AS signed \gset
SELECT r.event_id, t.says(r) FROM payment_idem.ingest(:'tenant', NULL, 'trade_no=n1&note=&total=10.00&status=paid&sign=' || t.sign(:'signed') || '&out_trade_no=F1', NULL, 'form') AS r;
SELECT r.event_id, t.says(r) FROM payment_idem.ingest(:'tenant', NULL, 'trade_no=n1&trade_no=n2&total=10.00&status=paid&sign=' || t.sign(:'signed') || '&out_trade_no=F1', NULL, 'form') AS r;
SELECT r.event_id, t.says(r) FROM payment_idem.ingest(:'tenant', NULL, 'trade_no=n1&total=1.00&status=paid&sign=' || t.sign(:'signed') || '&out_trade_no=F1', NULL, 'form') AS r;

\echo replay: past the age check and no other, by operators, with a row that says who and why
SELECT t.gateway('timed', '{"signed_text": "{timestamp}.{body}", "timestamp": {"from": ["header:X-Time"], "unit": "s", "tolerance_s": 300}}'), t.source('timed');
SELECT t.order(:'tenant', 'R1');
SELECT t.ev('paid', 'R1', pay => 'pr1', id => 'r1') AS r1, '{"X-Time": "1764590400"}' AS old \gset
SELECT * FROM t.come('timed', :'r1', t.sign('1764590400.' || :'r1'), :'old');
SELECT t.says(r) FROM payment_idem.replay(:'tenant', 'r1', convert_to(:'r1', 'UTF8'), t.sign('1764590400.' || :'r1'), 'outage', 'timed', :'old') AS r;
SELECT t.says(r) FROM payment_idem.replay(:'tenant', 'r1', convert_to(:'r1', 'UTF8'), t.sign('1764590400.' || :'r1'), 'outage, again', 'timed', :'old') AS r;
SELECT t.says(r) FROM payment_idem.replay(:'tenant', 'r1', convert_to(:'r1', 'UTF8'), t.sign('1764590401.' || :'r1'), 'forged', 'timed', :'old') AS r;
SELECT source, outcome, reason, why, replayed_by = current_user AS by_me, payload_sha256 = sha256(convert_to(:'r1', 'UTF8')) AS of_these_bytes
FROM payment_idem.replays WHERE tenant = :'tenant' ORDER BY replay_id;
SELECT t.err($$SELECT payment_idem.replay(t.id('gateways'), NULL, '', NULL, ' ')$$);
SELECT t.err($$SELECT payment_idem.replay(t.id('gateways'), NULL, '', NULL, NULL)$$);
SELECT t.err($$SELECT payment_idem.replay(t.id('gateways'), NULL, '', NULL, 'why', 'nowhere')$$);

\echo inspect: what was seen, and which mistake would explain it; nothing is written
SELECT t.ev('paid', 'O1', id => 'x1', more => '"name":"Zo\u00eb", "path":"a\/b"') AS x1 \gset
SELECT payment_idem.create_source(:'tenant', 'plain', 'plain'), payment_idem.create_source(:'tenant', 'plain_test', 'plain', '{"live_mode": false}');
SELECT payment_idem.add_secret(:'tenant', 'plain', t.secret('gateways')) > 0, payment_idem.add_secret(:'tenant', 'plain_test', 'secret of test mode') > 0;
SELECT payment_idem.retire_secret(payment_idem.add_secret(:'tenant', 'plain', 'secret of old days'));
CREATE FUNCTION t.seen(body text, sig text, headers jsonb DEFAULT NULL, source text DEFAULT 'plain') RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', seen->>'verdict', seen->>'malformed_because', seen->'fields'->>'event_id',
                     (SELECT string_agg(m->>'mistake', ', ') FROM jsonb_array_elements(seen->'mistakes_found') AS m))
    FROM payment_idem.inspect(t.id('gateways'), source, convert_to(body, 'UTF8'), sig, headers) AS seen
$$;
SELECT * FROM t.counts(:'tenant') \gset before_
SELECT what, t.seen(body, sig, headers) FROM (VALUES
    ('right', :'x1', t.sign(:'x1'), NULL::jsonb),
    ('no signature', :'x1', NULL, NULL),
    ('garbage', :'x1', 'garbage', NULL),
    ('another secret', :'x1', t.sign(:'x1', 'nobody knows it'), NULL),
    ('line feed lost', :'x1', t.sign(:'x1' || E'\n'), NULL),
    ('line feed added', :'x1' || E'\n', t.sign(:'x1'), NULL),
    ('CR LF lost', E'{"id":"x1",\n"type":"paid"}', t.sign(E'{"id":"x1",\r\n"type":"paid"}'), NULL),
    ('serialised anew, spaced', (:'x1'::jsonb)::text, t.sign(replace(replace((:'x1'::jsonb)::text, ': ', ':'), ', ', ',')), NULL),
    ('serialised anew, unescaped', replace(:'x1', '\/', '/'), t.sign(replace(:'x1', '", "', '","')), NULL),
    ('secret of test mode', :'x1', t.sign(:'x1', 'secret of test mode'), NULL),
    ('secret of old days', :'x1', t.sign(:'x1', 'secret of old days'), NULL),
    ('in another header', :'x1', NULL, jsonb_build_object('X-Signature', repeat('0', 64), 'X-Other', t.sign(:'x1'))),
    ('no JSON', 'paid', t.sign('paid'), NULL)
) AS v (what, body, sig, headers);
SELECT (SELECT row(c.*) FROM t.counts(:'tenant') AS c) = row(:before_receipts::bigint, :before_ledger::bigint, :before_outbox::bigint, :before_exceptions::bigint, :before_anomalies::bigint) AS nothing_written;
SELECT key FROM payment_idem.inspect(:'tenant', 'plain', convert_to(:'x1', 'UTF8'), t.sign(:'x1')) AS seen, jsonb_object_keys(seen) WITH ORDINALITY AS k (key, n) ORDER BY n;
SELECT verdict, age FROM (VALUES ('2025-12-01 12:00:30+00'), ('2025-12-01 12:05:00+00'), ('2025-12-01 12:05:01+00'), ('2025-12-01 11:55:00+00'), ('2025-12-01 11:54:59+00')) AS v (at),
    LATERAL payment_idem.inspect(:'tenant', 'timed', convert_to(:'r1', 'UTF8'), t.sign('1764590400.' || :'r1'), :'old', at::timestamptz) AS seen,
    LATERAL (SELECT seen->>'verdict' AS verdict, seen->'timestamp'->>'age_s' AS age) AS s;
SELECT seen::text ~ ('secret of|nobody|' || t.sign(:'x1')) AS shows_too_much
FROM payment_idem.inspect(:'tenant', 'plain', convert_to(:'x1', 'UTF8'), t.sign(:'x1', 'nobody knows it')) AS seen;

\echo Who may inspect and replay
CREATE ROLE gateways_ingest; CREATE ROLE gateways_operator;
GRANT USAGE ON SCHEMA payment_idem TO gateways_ingest, gateways_operator;
GRANT EXECUTE ON FUNCTION payment_idem.inspect(uuid, text, text, text, jsonb, timestamptz),
    payment_idem.replay(uuid, text, text, text, text, text, jsonb) TO gateways_ingest, gateways_operator;
INSERT INTO payment_idem.role_grants (role_name, profile, tenant) VALUES ('gateways_ingest', 'ingest', :'tenant'), ('gateways_operator', 'operator', :'tenant');
SET ROLE gateways_ingest;
SELECT t.err($$SELECT payment_idem.inspect(t.id('gateways'), 'plain', '', NULL)$$);
SELECT t.err($$SELECT payment_idem.replay(t.id('gateways'), NULL, '', NULL, 'why', 'plain')$$);
SET ROLE gateways_operator;
SELECT payment_idem.inspect(t.id('gateways'), 'plain', '', NULL)->>'verdict' AS inspected;
SELECT outcome, reason FROM payment_idem.replay(t.id('gateways'), NULL, '', NULL, 'why', 'plain');
SELECT t.err($$SELECT payment_idem.inspect(t.id('nobody'), 'plain', '', NULL)$$);
RESET ROLE;
DELETE FROM payment_idem.role_grants WHERE role_name LIKE 'gateways\_%';
DROP OWNED BY gateways_ingest, gateways_operator;
DROP ROLE gateways_ingest, gateways_operator;

SELECT * FROM payment_idem.check_invariants();
