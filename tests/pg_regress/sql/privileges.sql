-- Nobody may do anything until it is granted; a grant for one tenant is a grant for one tenant; and no name
-- of the caller's ever stands in for one of ours.
-- Roles outlive the database of a run that was cut short.
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_nobody, regress_app, regress_group;
RESET client_min_messages;
\set t1 't.id(''privileges'')'
\set t2 't.id(''privileges other'')'
SELECT t.tenant('privileges') = :t1 AS t1, t.tenant('privileges other') = :t2 AS t2;
SELECT t.order(:t1, 'O1'), t.order(:t1, 'O2'), t.order(:t1, 'O3'), t.order(:t1, 'O4'), t.order(:t2, 'O1');

-- What PUBLIC may: nothing, on any object of the schema, whoever made it and when.
SELECT 'schema' AS sort, nspname::text AS object, privilege_type FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner)))
WHERE nspname = 'payment_idem' AND grantee = 0
UNION ALL
SELECT relkind::text, oid::regclass::text, privilege_type
FROM pg_class, aclexplode(coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, relowner)))
WHERE relnamespace = 'payment_idem'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND grantee = 0
UNION ALL
SELECT 'column', attrelid::regclass || '.' || attname, privilege_type FROM pg_attribute JOIN pg_class c ON c.oid = attrelid, aclexplode(attacl)
WHERE relnamespace = 'payment_idem'::regnamespace AND grantee = 0
UNION ALL
SELECT 'routine', oid::regprocedure::text, privilege_type FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner)))
WHERE pronamespace = 'payment_idem'::regnamespace AND grantee = 0
UNION ALL
SELECT 'type', y.oid::regtype::text, privilege_type
FROM pg_type y LEFT JOIN pg_class c ON c.oid = typrelid, aclexplode(coalesce(typacl, acldefault('T', typowner)))
WHERE typnamespace = 'payment_idem'::regnamespace AND grantee = 0
  AND typcategory <> 'A' AND coalesce(c.relkind, 'c') = 'c' -- arrays and row types follow theirs
ORDER BY 1, 2, 3;

-- Functions that act as the owner fix their search_path, with pg_temp last.
CREATE VIEW t.acting_as_owner AS
SELECT oid::regprocedure AS routine, proconfig FROM pg_proc
WHERE pronamespace = 'payment_idem'::regnamespace AND (prosecdef OR probin IS NOT NULL) AND prorettype <> 'trigger'::regtype;
SELECT * FROM t.acting_as_owner
WHERE NOT coalesce(proconfig @> ARRAY['search_path=pg_catalog, payment_idem, pg_temp'], false) ORDER BY 1;
SELECT count(*) > 5 AS there_are_some FROM t.acting_as_owner;
-- Those in C change the role themselves, and must know the immediate caller: SECURITY DEFINER would make everybody the owner.
SELECT oid::regprocedure AS blind FROM pg_proc WHERE pronamespace = 'payment_idem'::regnamespace AND probin IS NOT NULL AND prosecdef;

-- A role with nothing is refused everywhere: every relation, every routine.
CREATE ROLE regress_nobody NOLOGIN;
CREATE TABLE t.attempts AS
SELECT 'relation' AS sort, oid::regclass::text AS object, statement
FROM pg_class, LATERAL unnest(CASE relkind
    WHEN 'S' THEN ARRAY[format('SELECT last_value FROM %s', oid::regclass), format('SELECT nextval(%L)', oid::regclass)]
    WHEN 'v' THEN ARRAY[format('SELECT 1 FROM %s', oid::regclass)]
    ELSE ARRAY[format('SELECT 1 FROM %s', oid::regclass), format('INSERT INTO %s DEFAULT VALUES', oid::regclass),
               format('DELETE FROM %s', oid::regclass), format('TRUNCATE %s CASCADE', oid::regclass),
               format('UPDATE %s SET tenant = NULL', oid::regclass), format('LOCK TABLE %s', oid::regclass),
               format('DROP TABLE %s', oid::regclass), format('ALTER TABLE %s DISABLE TRIGGER ALL', oid::regclass)] END) AS statement
WHERE relnamespace = 'payment_idem'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
  AND NOT (statement LIKE 'UPDATE%' AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'tenant'))
UNION ALL
SELECT 'routine', oid::regprocedure::text, format('%s %s(%s)', CASE prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END, oid::regproc,
       (SELECT string_agg('NULL::' || format_type(type, NULL), ', ') FROM unnest(proargtypes) AS type))
FROM pg_proc WHERE pronamespace = 'payment_idem'::regnamespace AND prorettype <> 'trigger'::regtype
  AND NOT proisstrict -- the planner knows what a strict function answers to NULL, and does not call it
  AND oid <> ALL (SELECT p.oid FROM pg_proc p WHERE p.proname = 'ingest' AND p.pronamespace = 'payment_idem'::regnamespace)
UNION ALL
SELECT 'routine', 'ingest', format('SELECT * FROM payment_idem.ingest(NULL, NULL, NULL::%s, NULL)', type) FROM unnest(ARRAY['text', 'bytea']) AS type;
GRANT SELECT ON t.attempts TO PUBLIC;
SELECT sort, count(*) > 10 AS many FROM t.attempts GROUP BY sort ORDER BY sort;
SET ROLE regress_nobody;
-- Without USAGE on the schema ...
SELECT object, statement, t.err(statement) FROM t.attempts WHERE left(t.err(statement), 5) <> '42501' ORDER BY 1, 2;
RESET ROLE;
-- ... and with it, as every caller has it.
GRANT USAGE ON SCHEMA payment_idem TO regress_nobody;
SET ROLE regress_nobody;
SELECT object, statement, t.err(statement) FROM t.attempts WHERE left(t.err(statement), 5) <> '42501' ORDER BY 1, 2;
RESET ROLE;
SELECT oid::regprocedure AS callable FROM pg_proc
WHERE pronamespace = 'payment_idem'::regnamespace AND has_function_privilege('regress_nobody', oid, 'EXECUTE');

-- A role that may call ingest, create_order and the workers' functions, for one tenant.
CREATE ROLE regress_app LOGIN;
GRANT USAGE ON SCHEMA payment_idem TO regress_app;
GRANT EXECUTE ON FUNCTION payment_idem.ingest(uuid, text, bytea, text, text, jsonb), payment_idem.ingest(uuid, text, text, text, text, jsonb),
    payment_idem.create_order(uuid, text, text, numeric, text, timestamptz, text, text), payment_idem.create_source(uuid, text, text, jsonb),
    payment_idem.add_secret(uuid, text, text, timestamptz), payment_idem.retire_secret(bigint, timestamptz),
    payment_idem.claim(text, int, interval, text[], uuid), payment_idem.ack(uuid), payment_idem.nack(uuid, text, interval) TO regress_app;
INSERT INTO payment_idem.role_grants (role_name, profile, tenant) VALUES ('regress_app', 'ingest', :t1);
-- Deliveries, signed beforehand: the role itself reads no secret.
CREATE TABLE t.signed AS
SELECT ord, body, t.sign(body, t.secret('privileges')) AS sig, t.sign(body, t.secret('privileges other')) AS other_sig
FROM unnest(ARRAY['O1', 'O2', 'O3', 'O4']) AS ord, t.ev('paid', ord, pay => 'pi_' || ord, id => 'evt_' || ord) AS body;
GRANT SELECT ON t.signed TO regress_app;
CREATE FUNCTION t.app(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE call INTO answer;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    RETURN regexp_replace(t.err(call), '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'UUID');
END $$;
SET SESSION AUTHORIZATION regress_app;
-- EXECUTE and the row: it may ingest for this tenant. A tenant that is not granted and one that does not exist look the same.
SELECT t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('privileges'), NULL, body, sig) r WHERE ord = 'O1'$$) AS granted;
SELECT t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('privileges other'), NULL, body, other_sig) r WHERE ord = 'O1'$$) AS ungranted;
SELECT t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('nobody'), NULL, body, sig) r WHERE ord = 'O1'$$) AS unknown;
-- With a source that either has or has not: no difference either.
SELECT t.app($$SELECT t.says(r) FROM payment_idem.ingest(t.id('privileges other'), NULL, 'x', 'x', 'nowhere') r$$)
     = t.app($$SELECT t.says(r) FROM payment_idem.ingest(t.id('nobody'), NULL, 'x', 'x', 'nowhere') r$$) AS same,
       t.app($$SELECT t.says(r) FROM payment_idem.ingest(t.id('privileges'), NULL, 'x', 'x', 'nowhere') r$$) AS of_its_own;
-- Its profile is ingest: it makes orders and delivers; EXECUTE alone opens nothing else, for its own tenant or another's.
SELECT call, left(t.app('SELECT ' || replace(call, '?', 't.id(''privileges'')')), 5) AS own,
       t.app('SELECT ' || replace(call, '?', 't.id(''privileges other'')')) = t.app('SELECT ' || replace(call, '?', 't.id(''nobody'')')) AS same,
       left(t.app('SELECT ' || replace(call, '?', 't.id(''nobody'')')), 5) AS other
FROM (VALUES ('payment_idem.create_order(?, ''m1'', ''X'', 1, ''USD'')'), ('payment_idem.create_source(?, ''s'', ''generic'')'),
             ('payment_idem.add_secret(?, ''default'', ''long enough'')'), ('payment_idem.claim(''w'', tenant => ?)')) AS v (call);
SELECT t.app('SELECT payment_idem.claim(''w'')') AS claim_of_all;
SELECT t.app('SELECT payment_idem.retire_secret(1)') AS another_s_secret;
SELECT t.app('SELECT payment_idem.retire_secret(999)') AS nobody_s_secret;
RESET SESSION AUTHORIZATION;
-- A grant that is taken back is gone at once, also for a session that has the source in memory.
SET SESSION AUTHORIZATION regress_app;
SELECT t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('privileges'), NULL, body, sig) r WHERE ord = 'O1'$$) AS granted;
RESET SESSION AUTHORIZATION;
DELETE FROM payment_idem.role_grants WHERE role_name = 'regress_app';
SET SESSION AUTHORIZATION regress_app;
SELECT t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('privileges'), NULL, body, sig) r WHERE ord = 'O1'$$) AS taken_back;
RESET SESSION AUTHORIZATION;
-- A row for every tenant; a row of a role that it is a member of.
INSERT INTO payment_idem.role_grants (role_name, profile, tenant) VALUES ('regress_app', 'ingest', NULL);
SET SESSION AUTHORIZATION regress_app;
SELECT t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('privileges other'), NULL, body, other_sig) r WHERE ord = 'O1'$$) AS every_tenant;
SELECT left(t.app('SELECT payment_idem.ingest(t.id(''nobody''), NULL, ''x'', ''x'')'), 5) AS but_none_that_is_not;
RESET SESSION AUTHORIZATION;
DELETE FROM payment_idem.role_grants WHERE role_name = 'regress_app';
CREATE ROLE regress_group NOLOGIN;
INSERT INTO payment_idem.role_grants (role_name, profile, tenant) VALUES ('regress_group', 'ingest', :t1);
GRANT regress_group TO regress_app;
SET SESSION AUTHORIZATION regress_app;
SELECT t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('privileges'), NULL, body, sig) r WHERE ord = 'O1'$$) AS member;
RESET SESSION AUTHORIZATION;
REVOKE regress_group FROM regress_app;
SET SESSION AUTHORIZATION regress_app;
SELECT left(t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('privileges'), NULL, body, sig) r WHERE ord = 'O1'$$), 5) AS no_member;
RESET SESSION AUTHORIZATION;
-- The role that counts is the one that calls: a superuser who became another role is that role.
SET ROLE regress_app;
SELECT left(t.app($$SELECT t.says(r) FROM t.signed, payment_idem.ingest(t.id('privileges'), NULL, body, sig) r WHERE ord = 'O1'$$), 5) AS as_that_role;
RESET ROLE;

-- B68: names of the caller's own are never used, from the first call of a session on.
INSERT INTO payment_idem.role_grants (role_name, profile, tenant) VALUES ('regress_app', 'admin', :t1), ('regress_app', 'ingest', :t1),
    ('regress_app', 'worker', :t1), ('regress_app', 'operator', :t1);
CREATE SCHEMA evil AUTHORIZATION regress_app;
SELECT string_agg(format('CREATE TEMP TABLE %I (evil int)', relname), '; ') AS shadows FROM pg_class
WHERE relnamespace = 'payment_idem'::regnamespace AND relkind IN ('r', 'p', 'v', 'S') \gset
CREATE TABLE t.shadows AS SELECT :'shadows' AS statements;
GRANT SELECT ON t.shadows TO regress_app;
\connect -
SET SESSION AUTHORIZATION regress_app;
DO $$ BEGIN EXECUTE (SELECT statements FROM t.shadows); END $$;
-- Types, functions and operators that would be a better match than the true ones; each of them gives itself away.
CREATE DOMAIN evil.uuid AS int;
CREATE DOMAIN evil.bigint AS text;
CREATE DOMAIN evil.order_status AS int;
CREATE FUNCTION evil.caught() RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'an evil name was used'; END$$;
CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT evil.caught()::timestamptz';
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT evil.caught()::timestamptz';
CREATE FUNCTION evil.gen_random_uuid() RETURNS pg_catalog.uuid LANGUAGE sql AS 'SELECT evil.caught()::pg_catalog.uuid';
CREATE FUNCTION evil.nextval(text) RETURNS int8 LANGUAGE sql AS 'SELECT evil.caught()::int8';
CREATE FUNCTION evil.nextval(regclass) RETURNS int8 LANGUAGE sql AS 'SELECT evil.caught()::int8';
CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS 'SELECT evil.caught()';
CREATE FUNCTION evil.btrim(text) RETURNS text LANGUAGE sql AS 'SELECT evil.caught()';
CREATE FUNCTION evil.digest(text, text) RETURNS bytea LANGUAGE sql AS 'SELECT evil.caught()::bytea';
CREATE FUNCTION evil.digest(bytea, text) RETURNS bytea LANGUAGE sql AS 'SELECT evil.caught()::bytea';
CREATE FUNCTION evil.hmac(text, text, text) RETURNS bytea LANGUAGE sql AS 'SELECT evil.caught()::bytea';
CREATE FUNCTION evil.hmac(bytea, bytea, text) RETURNS bytea LANGUAGE sql AS 'SELECT evil.caught()::bytea';
CREATE FUNCTION evil.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT evil.caught()::bytea';
CREATE FUNCTION evil.encode(bytea, text) RETURNS text LANGUAGE sql AS 'SELECT evil.caught()';
CREATE FUNCTION evil.convert_to(text, name) RETURNS bytea LANGUAGE sql AS 'SELECT evil.caught()::bytea';
CREATE FUNCTION evil.octet_length(bytea) RETURNS int LANGUAGE sql AS 'SELECT evil.caught()::int';
CREATE FUNCTION evil.message_id(pg_catalog.uuid, text, text, text) RETURNS pg_catalog.uuid LANGUAGE sql AS 'SELECT evil.caught()::pg_catalog.uuid';
CREATE FUNCTION evil.ensure_partitions(int) RETURNS int LANGUAGE sql AS 'SELECT evil.caught()::int';
CREATE FUNCTION evil.pg_has_role(oid, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.caught()::boolean';
DO $$
DECLARE
    type text; op text;
BEGIN
    FOREACH type IN ARRAY ARRAY['text', 'pg_catalog.uuid', 'bytea', 'int8', 'int4', 'timestamptz', 'interval', 'name', 'oid', 'jsonb', 'boolean'] LOOP
        EXECUTE format('CREATE FUNCTION evil.compare(%1$s, %1$s) RETURNS boolean LANGUAGE sql AS ''SELECT evil.caught()::boolean''', type);
        FOREACH op IN ARRAY ARRAY['=', '<', '>', '<=', '>=', '<>'] LOOP
            EXECUTE format('CREATE OPERATOR evil.%2$s (FUNCTION = evil.compare, LEFTARG = %1$s, RIGHTARG = %1$s)', type, op);
        END LOOP;
    END LOOP;
END $$;
CREATE FUNCTION evil.add(int8, int8) RETURNS int8 LANGUAGE sql AS 'SELECT evil.caught()::int8';
CREATE OPERATOR evil.+ (FUNCTION = evil.add, LEFTARG = int8, RIGHTARG = int8);
CREATE FUNCTION evil.later(timestamptz, interval) RETURNS timestamptz LANGUAGE sql AS 'SELECT evil.caught()::timestamptz';
CREATE OPERATOR evil.+ (FUNCTION = evil.later, LEFTARG = timestamptz, RIGHTARG = interval);
CREATE FUNCTION evil.glue(text, text) RETURNS text LANGUAGE sql AS 'SELECT evil.caught()';
CREATE OPERATOR evil.|| (FUNCTION = evil.glue, LEFTARG = text, RIGHTARG = text);
-- The deliveries, as literals: from here on no expression of the test's own may meet an operator.
SELECT body AS b2, sig AS s2 FROM t.signed WHERE ord = 'O2' \gset
SELECT body AS b3, sig AS s3 FROM t.signed WHERE ord = 'O3' \gset
SELECT body AS b9, sig AS s9 FROM t.signed WHERE ord = 'O4' \gset
SELECT t.id('privileges') AS tenant \gset
SET search_path = evil, pg_temp, public, pg_catalog;
-- They do lie in wait.
\set VERBOSITY terse
SELECT now();
SELECT 'a'::text = 'b'::text;
SELECT evil FROM orders;
\set VERBOSITY default
SELECT outcome, order_status FROM payment_idem.ingest(:'tenant', 'evt_O2', :'b2', :'s2');
SELECT outcome, order_status FROM payment_idem.ingest(:'tenant', 'evt_O2', :'b2', :'s2');
SELECT outcome, order_status FROM payment_idem.ingest(:'tenant', 'evt_O3', :'b3', :'s3');
SELECT outcome, reason FROM payment_idem.ingest(:'tenant', 'evt_O3', :'b2', :'s2');
SELECT outcome, reason FROM payment_idem.ingest(:'tenant', 'evt_O3', :'b2', :'s3');
SELECT outcome, status FROM payment_idem.create_order(:'tenant', 'm1', 'EVIL', 10, 'usd', gateway_order_id => 'GEVIL', customer_mobile => '1');
SELECT outcome, status FROM payment_idem.create_order(:'tenant', 'm1', 'EVIL', 10, 'usd', expires_at => '2099-01-01');
SELECT client_txn_id, kind, amount_minor, attempts FROM payment_idem.claim('w', 1, tenant => :'tenant');
SELECT lease_token AS token FROM payment_idem.claim('w', 1, tenant => :'tenant') \gset
SELECT payment_idem.nack(:'token', 'not now', '1 second');
SELECT lease_token AS token FROM payment_idem.claim('w', 1, tenant => :'tenant') \gset
SELECT payment_idem.ack(:'token');
RESET search_path;
-- Also where plans are kept from before: search_path changes under them.
SELECT outcome FROM payment_idem.ingest(:'tenant', 'evt_O4', :'b9', :'s9');
SET search_path = evil, pg_temp, public, pg_catalog;
SELECT outcome FROM payment_idem.ingest(:'tenant', 'evt_O4', :'b9', :'s9');
RESET search_path;
RESET SESSION AUTHORIZATION;
-- The true tables were written, the shadows were not.
SELECT client_txn_id, status FROM payment_idem.orders WHERE tenant = :t1 ORDER BY 1;
SELECT receipts, ledger, outbox FROM t.counts(:t1);
SELECT (SELECT count(*) FROM pg_temp.orders) + (SELECT count(*) FROM pg_temp.event_receipts) + (SELECT count(*) FROM pg_temp.outbox) AS in_shadows;
\connect -

DELETE FROM payment_idem.role_grants WHERE role_name LIKE 'regress\_%';
SET client_min_messages = warning;
DROP SCHEMA evil CASCADE;
DROP OWNED BY regress_app, regress_nobody, regress_group;
DROP ROLE regress_app, regress_nobody, regress_group;
SELECT * FROM payment_idem.check_invariants();

\echo P10: the role that counts is the immediate caller, whoever the session is
SELECT payment_idem.create_tenant('victim', '10101010-0000-4000-8000-000000000001') IS NOT NULL AS made;
SELECT payment_idem.create_source('10101010-0000-4000-8000-000000000001', 'default', 'generic');
CREATE ROLE regress_mallory NOLOGIN;
GRANT USAGE ON SCHEMA payment_idem, t TO regress_mallory;
GRANT EXECUTE ON FUNCTION payment_idem.add_secret TO regress_mallory;
CREATE SCHEMA mallory AUTHORIZATION regress_mallory;
SET ROLE regress_mallory;
CREATE FUNCTION mallory.steal(i integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog AS $$
BEGIN
    IF i = 1 THEN
        BEGIN
            PERFORM payment_idem.add_secret('10101010-0000-4000-8000-000000000001', 'default', 'forged-secret');
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE NOTICE 'refused: %', SQLERRM;
        END;
    END IF;
    RETURN i;
END $$;
CREATE FUNCTION mallory.trap() RETURNS integer LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog
    AS 'SELECT mallory.steal(1)';
CREATE MATERIALIZED VIEW mallory.view AS SELECT mallory.steal(1) WITH NO DATA;
RESET ROLE;
-- As the superuser: what PostgreSQL runs on mallory's behalf stays mallory's.
SET client_min_messages = notice;
REFRESH MATERIALIZED VIEW mallory.view;
SELECT mallory.trap();
SET client_min_messages = warning;
SELECT count(*) AS forged FROM payment_idem.signing_secrets WHERE tenant = '10101010-0000-4000-8000-000000000001';
-- The other way round, a SECURITY DEFINER function of a role that may act lends just that call.
CREATE FUNCTION t.lend() RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog
    AS $$ SELECT payment_idem.add_secret('10101010-0000-4000-8000-000000000001', 'default', 'honest-secret') > 0 $$;
SET ROLE regress_mallory;
SELECT t.lend() AS lent;
RESET ROLE;
DROP SCHEMA mallory CASCADE;
REVOKE ALL ON FUNCTION payment_idem.add_secret FROM regress_mallory;
REVOKE ALL ON SCHEMA payment_idem, t FROM regress_mallory;
DROP ROLE regress_mallory;
SELECT * FROM payment_idem.check_invariants();
