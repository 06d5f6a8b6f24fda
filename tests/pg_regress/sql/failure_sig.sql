-- Public failure reports, kind SIG.
\set t1 't.id(''sig'')'
\set secret 't.secret(''sig'')'
SELECT t.tenant('sig') = :t1 AS t1;
SELECT pg_postmaster_start_time() AS started, pg_backend_pid() AS pid \gset

\echo B17: signature and digest are over the exact bytes given
SELECT t.order(:t1, 'B17');
SELECT E'{"z":1.0,  "type":"paid","payment":"pi_b17","order":"B17","id":"b17","currency":"usd","amount":1000, "a":"\\u00e9"}\r\n' AS b,
       t.sign(E'{"z":1.0,  "type":"paid","payment":"pi_b17","order":"B17","id":"b17","currency":"usd","amount":1000, "a":"\\u00e9"}\r\n', :secret) AS sig \gset
SELECT t.says(r) AS written_again FROM payment_idem.ingest(:t1, 'b17', convert_to((:'b'::jsonb)::text, 'UTF8'), :'sig') r;
SELECT t.says(r) AS without_line_feed FROM payment_idem.ingest(:t1, 'b17', left(:'b', -1), :'sig') r;
SELECT t.says(r) AS without_line_end FROM payment_idem.ingest(:t1, 'b17', left(:'b', -2), :'sig') r;
SELECT t.says(r) AS exact, payload_sha256 = encode(sha256(convert_to(:'b', 'UTF8')), 'hex') AS digest
FROM payment_idem.ingest(:t1, 'b17', :'b', :'sig') r;

\echo B18: bytes are never decoded before they are hashed
SELECT t.order(:t1, 'B18_' || n) FROM generate_series(1, 5) n;
CREATE TEMP TABLE bodies (n int, what text, body bytea);
INSERT INTO bodies VALUES
    (1, '4-byte emoji', convert_to(t.ev('paid', 'B18_1', pay => 'pi_b18_1', id => 'b18_1', more => U&'"note":"\+01F600"'), 'UTF8')),
    (2, 'U+2028', convert_to(t.ev('paid', 'B18_2', pay => 'pi_b18_2', id => 'b18_2', more => U&'"note":"\2028"'), 'UTF8')),
    (3, 'ff fe in a string', replace(encode(convert_to(t.ev('paid', 'B18_3', pay => 'pi_b18_3', id => 'b18_3', more => '"note":"@"'), 'UTF8'), 'escape'), '@', '\377\376')::bytea),
    (4, 'byte order mark', '\xefbbbf'::bytea || convert_to(t.ev('paid', 'B18_4', pay => 'pi_b18_4', id => 'b18_4'), 'UTF8')),
    (5, 'gzip', decode('H4sIAAAAAAAAA6uuBQBDv6ajAgAAAA==', 'base64'));
SELECT what, t.say(:t1, 'b18_' || n, body) FROM bodies;
SELECT what, t.say(:t1, 'b18_' || n, body) AS again FROM bodies;
SELECT what, t.says(r) AS signed_otherwise FROM bodies, payment_idem.ingest(:t1, 'b18_' || n, body, t.sign(body, 'another secret')) r;

\echo B19: whatever stands in place of a signature, the answer is the same and nothing is stored
SELECT t.order(:t1, 'B19');
SELECT * FROM t.counts(:t1) \gset before_
SELECT what, t.says(r) FROM (VALUES
    ('NULL', NULL), ('empty', ''), ('3 digits', 'abc'), ('63 digits', repeat('a', 63)), ('65 digits', repeat('a', 65)),
    ('no digits', repeat('z', 64)), ('64 multibyte', repeat('é', 64)), ('32 multibyte', repeat('é', 32)),
    ('1 MiB', repeat('a', 1048576)), ('v1=', 'v1='), ('v1=,v1=', 'v1=,v1='), ('prefix alone', 'sha256='),
    ('prefix twice', 'sha256=sha256=' || repeat('a', 64)), ('blank before', ' ' || repeat('a', 64)), ('line feed after', repeat('a', 64) || E'\n'),
    ('0x', '0x' || repeat('a', 62))) AS v (what, sig),
    LATERAL payment_idem.ingest(:t1, 'b19', t.ev('paid', 'B19', id => 'b19'), sig) r;
-- Well-formed and wrong is the other word; both are 401.
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'b19', t.ev('paid', 'B19', id => 'b19'), repeat('a', 64)) r;
-- Headers that say it twice, or say something else.
SELECT headers, t.says(r) FROM (VALUES
    ('{}'::jsonb), ('{"X-Signature": null}'), ('{"X-Signature": ""}'), ('{"x-signature": "aa", "X-SIGNATURE": "bb"}')) AS v (headers),
    LATERAL payment_idem.ingest(:t1, 'b19', t.ev('paid', 'B19', id => 'b19'), NULL, headers => headers) r;
SELECT (receipts, ledger, outbox, exceptions, anomalies)
     = (:before_receipts, :before_ledger, :before_outbox, :before_exceptions, :before_anomalies) AS nothing_stored FROM t.counts(:t1);
SELECT pg_postmaster_start_time() = :'started' AS server_is_up, pg_backend_pid() = :pid AS same_backend;

\echo B22: without a secret nobody is authentic
-- The design tells our own fault (503) from the sender's (401); both are rejected and nothing is stored.
SELECT payment_idem.create_source(:t1, 'none', 'generic');
SELECT t.order(:t1, 'B22');
SELECT sig IS NOT NULL AS signed, t.says(r) FROM (VALUES
    (encode(hmac(convert_to(t.ev('paid', 'B22', id => 'b22'), 'UTF8'), ''::bytea, 'sha256'), 'hex')),
    (t.sign(t.ev('paid', 'B22', id => 'b22'), repeat(' ', 20))), (NULL), ('')) AS v (sig),
    LATERAL payment_idem.ingest(:t1, 'b22', t.ev('paid', 'B22', id => 'b22'), sig, 'none') r;
SELECT length(secret), left(t.err(format('SELECT payment_idem.add_secret(t.id(''sig''), ''none'', %L)', secret)), 5) AS code
FROM (VALUES (NULL), (''), (repeat(' ', 20)), ('x'), (repeat(E'\n', 8))) AS v (secret);
SELECT count(*) AS secrets FROM payment_idem.signing_secrets WHERE tenant = :t1 AND source = 'none';
-- No key that anybody could guess opens a source that has one.
SELECT t.says(r) FROM payment_idem.ingest(:t1, 'b22', t.ev('paid', 'B22', id => 'b22'),
    encode(hmac(convert_to(t.ev('paid', 'B22', id => 'b22'), 'UTF8'), ''::bytea, 'sha256'), 'hex')) r;
SELECT left(t.err('SELECT payment_idem.ingest(t.id(''nobody''), ''b22'', ''{}'', NULL)'), 5) AS unknown_tenant;

\echo B24: the signed moment is checked on both sides, in strict digits
SELECT payment_idem.create_source(:t1, 'stripe', 'stripe');
SELECT payment_idem.add_secret(:t1, 'stripe', :secret) IS NOT NULL AS secret;
-- One event for each moment: an accepted one is recorded. The header repeats the text that was signed.
CREATE FUNCTION pg_temp.at(id text, moment text, header text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT t.says(r) FROM (VALUES (format('{"id":"b24_%s","type":"charge.updated"}', id))) AS v (body),
        LATERAL payment_idem.ingest(t.id('sig'), NULL, body, coalesce(header, 't=' || moment || ',v1=')
                                    || t.sign(moment || '.' || body, t.secret('sig')), 'stripe') r
$$;
CREATE FUNCTION pg_temp.from_now(seconds int) RETURNS text LANGUAGE sql AS
    'SELECT (floor(extract(epoch FROM clock_timestamp())) + seconds)::bigint::text';
-- The tolerance is 300 s. The inner moments leave a slow machine 5 s, the outer one in the future 3 s.
SELECT seconds, pg_temp.at(seconds::text, pg_temp.from_now(seconds)) FROM (VALUES (0), (-295), (-301), (299), (304), (-86400)) AS v (seconds);
SELECT what, pg_temp.at(what, moment) FROM (VALUES
    ('negative', '-1'), ('letters behind', '123abc'), ('exponent', '1e3'), ('plus', '+' || pg_temp.from_now(0)),
    ('blank before', ' ' || pg_temp.from_now(0)), ('fraction', pg_temp.from_now(0) || '.0'), ('hex', '0x65'), ('empty', ''),
    ('milliseconds', pg_temp.from_now(0) || '000'), ('beyond 64 bits', '9999999999999999999'), ('other digits', U&'\0661\0662\0663')) AS v (what, moment);
SELECT what, pg_temp.at(what, pg_temp.from_now(0), header) FROM (VALUES
    ('missing', 'v1='), ('not signed', 't=' || pg_temp.from_now(1) || ',v1='), ('twice', 't=1,t=' || pg_temp.from_now(0) || ',v1='),
    ('only v0', 't=' || pg_temp.from_now(0) || ',v0='), ('no hex', 't=' || pg_temp.from_now(0) || ',v1=zz')) AS v (what, header);
-- Nothing is stored for a reject, so that the same event, signed anew, still counts.
SELECT pg_temp.at('-301', pg_temp.from_now(0)), pg_temp.at('304', pg_temp.from_now(0));
-- A source may have its own tolerance.
SELECT payment_idem.create_source(:t1, 'strict', 'stripe', '{"tolerance_s": 10}');
SELECT payment_idem.add_secret(:t1, 'strict', :secret) IS NOT NULL AS secret;
SELECT seconds, t.says(r) FROM (VALUES (0), (-11), (-295)) AS v (seconds), pg_temp.from_now(seconds) AS moment,
    LATERAL payment_idem.ingest(:t1, NULL, '{"id":"b24_' || seconds || '","type":"charge.updated"}', 't=' || moment || ',v1='
        || t.sign(moment || '.{"id":"b24_' || seconds || '","type":"charge.updated"}', :secret), 'strict') r;
-- Several signatures and several secrets: one that fits is enough.
SELECT payment_idem.add_secret(:t1, 'stripe', 'the next secret') IS NOT NULL AS rolled;
SELECT what, t.says(r) FROM pg_temp.from_now(0) AS moment, (VALUES
    ('new secret', 'v1=%2$s'), ('old secret', 'v1=%1$s'), ('both', 'v1=%1$s,v1=%2$s'), ('wrong, then right', 'v1=%3$s,v1=%1$s'), ('wrong', 'v1=%3$s')) AS v (what, form),
    LATERAL (SELECT '{"id":"b24_' || what || '","type":"charge.updated"}' AS body) AS b0,
    LATERAL (SELECT replace(body, ' ', '_') AS body) AS b,
    LATERAL payment_idem.ingest(:t1, NULL, b.body, format('t=%s,', moment) || format(form, t.sign(moment || '.' || b.body, :secret),
        t.sign(moment || '.' || b.body, 'the next secret'), repeat('0', 64)), 'stripe') r;

SELECT * FROM payment_idem.check_invariants();
