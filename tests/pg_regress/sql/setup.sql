-- What every test below leans on. Schema t belongs to the tests, not to the extension.
CREATE EXTENSION payment_idem;
-- Only tests use pgcrypto: a second author of HMAC and SHA-256.
CREATE EXTENSION pgcrypto;

-- The install script makes no partition, or restore would meet it twice; the first create_tenant does.
SELECT count(*) AS partitions_before_the_first_tenant FROM pg_inherits
WHERE inhparent IN ('payment_idem.transactions'::regclass, 'payment_idem.payloads'::regclass);

CREATE SCHEMA t;
GRANT USAGE ON SCHEMA t TO PUBLIC;

-- One tenant for each test, with a key that follows from its name, so that output is the same on every run.
CREATE FUNCTION t.id(name text) RETURNS uuid LANGUAGE sql IMMUTABLE AS 'SELECT md5(name)::uuid';

CREATE FUNCTION t.secret(name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'secret of ' || name$$;

CREATE FUNCTION t.tenant(name text) RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM payment_idem.create_tenant(name, t.id(name));
    PERFORM payment_idem.create_source(t.id(name), 'default', 'generic');
    PERFORM payment_idem.add_secret(t.id(name), 'default', t.secret(name));
    RETURN t.id(name);
END $$;

CREATE FUNCTION t.sign(body bytea, secret text) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$SELECT encode(public.hmac(body, convert_to(secret, 'UTF8'), 'sha256'), 'hex')$$;
CREATE FUNCTION t.sign(body text, secret text) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$SELECT t.sign(convert_to(body, 'UTF8'), secret)$$;

-- A body in the generic shape; amt is a raw JSON token, and a NULL member is left out.
CREATE FUNCTION t.ev(type text, ord text, amt text DEFAULT '1000', cur text DEFAULT 'usd', pay text DEFAULT 'pi_1',
                     id text DEFAULT 'evt_1', more text DEFAULT NULL)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '{' || concat_ws(',', '"id":' || to_json(id), '"type":' || to_json(type), '"order":' || to_json(ord),
                            '"amount":' || amt, '"currency":' || to_json(cur), '"payment":' || to_json(pay), more) || '}'
$$;

-- ingest with a valid signature of the generic gateway, by the newest secret of the source.
CREATE FUNCTION t.ing(tenant uuid, id text, body bytea, source text DEFAULT 'default')
RETURNS SETOF payment_idem.ingest_result LANGUAGE sql AS $$
    SELECT * FROM payment_idem.ingest(tenant, id, body, t.sign(body, (
        SELECT s.secret FROM payment_idem.signing_secrets s
        WHERE s.tenant = ing.tenant AND s.source = ing.source ORDER BY s.secret_id DESC LIMIT 1)), source)
$$;
CREATE FUNCTION t.ing(tenant uuid, id text, body text, source text DEFAULT 'default')
RETURNS SETOF payment_idem.ingest_result LANGUAGE sql AS $$
    SELECT * FROM payment_idem.ingest(tenant, id, body, t.sign(body, (
        SELECT s.secret FROM payment_idem.signing_secrets s
        WHERE s.tenant = ing.tenant AND s.source = ing.source ORDER BY s.secret_id DESC LIMIT 1)), source)
$$;

-- A result in one line: outcome, reason, status to answer, where the order stands.
CREATE FUNCTION t.says(r payment_idem.ingest_result) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT concat_ws(' ', CASE r.outcome WHEN 'duplicate' THEN 'duplicate of ' || r.first_outcome ELSE r.outcome END
                          || coalesce('/' || r.reason, ''), r.http_status, r.order_status)
$$;
CREATE FUNCTION t.say(tenant uuid, id text, body text, source text DEFAULT 'default') RETURNS text LANGUAGE sql AS
    'SELECT t.says(r) FROM t.ing(tenant, id, body, source) r';
CREATE FUNCTION t.say(tenant uuid, id text, body bytea, source text DEFAULT 'default') RETURNS text LANGUAGE sql AS
    'SELECT t.says(r) FROM t.ing(tenant, id, body, source) r';

-- create_order of merchant m1, 10.00 USD unless told otherwise, in one line.
CREATE FUNCTION t.order(tenant uuid, ord text, amount numeric DEFAULT 10, currency text DEFAULT 'USD',
                        gateway_order_id text DEFAULT NULL, merchant_id text DEFAULT 'm1')
RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', outcome, status) FROM payment_idem.create_order(
        tenant, merchant_id, ord, amount, currency, gateway_order_id => gateway_order_id)
$$;

CREATE FUNCTION t.counts(tenant uuid, OUT receipts bigint, OUT ledger bigint, OUT outbox bigint,
                         OUT exceptions bigint, OUT anomalies bigint)
LANGUAGE sql AS $$
    SELECT (SELECT count(*) FROM payment_idem.event_receipts x WHERE x.tenant = $1),
           (SELECT count(*) FROM payment_idem.transactions x WHERE x.tenant = $1),
           (SELECT count(*) FROM payment_idem.outbox x WHERE x.tenant = $1),
           (SELECT count(*) FROM payment_idem.exceptions x WHERE x.tenant = $1),
           (SELECT count(*) FROM payment_idem.anomalies x WHERE x.tenant = $1)
$$;

-- The error of a statement that is to fail: SQLSTATE|message|detail|hint.
CREATE FUNCTION t.err(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    code text; message text; detail text; hint text;
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                            detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws('|', code, message, detail, hint);
END $$;

-- The rule that a statement breaks, where the text names times or rows: SQLSTATE and constraint.
CREATE FUNCTION t.breaks(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    code text; broken text;
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, broken = CONSTRAINT_NAME;
    RETURN concat_ws(' ', code, nullif(broken, ''));
END $$;

-- HMAC-SHA256 as in RFC 4231, test case 2: the tests' own signatures are right.
SELECT t.sign('what do ya want for nothing?', 'Jefe')
       = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843' AS rfc_4231;
SELECT t.ev('paid', 'O1');
SELECT t.ev('paid', 'O1', '1.0', NULL, id => 'evt_2', more => '"utr":"U1"');
SELECT t.err('SELECT 1/0'), t.err('SELECT 1');
SELECT * FROM payment_idem.check_invariants();
