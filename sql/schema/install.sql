-- What must hold before anything is made.

DO $$
BEGIN
    IF pg_catalog.current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'payment_idem needs a database in the encoding UTF8',
            DETAIL = pg_catalog.format('This database is in %s; signatures are made over UTF-8 bytes.',
                                       pg_catalog.current_setting('server_encoding')),
            HINT = 'CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0';
    END IF;
END $$;

DO $$
BEGIN
    -- A schema that somebody else prepared could hold functions that ours would call as their owner. One that a
    -- superuser owns is what a restored dump makes.
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace n
               WHERE n.nspname = 'payment_idem'
                 AND (NOT EXISTS (SELECT FROM pg_catalog.pg_roles r
                                  WHERE r.oid = n.nspowner AND (r.rolsuper OR r.rolname = current_user))
                      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid)
                      OR EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid)
                      OR EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oprnamespace = n.oid)
                      OR EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.typnamespace = n.oid))) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_schema',
            MESSAGE = 'schema "payment_idem" exists already, and is not an empty one of your own',
            DETAIL = 'What others put into it could stand in for what the extension calls.',
            HINT = 'DROP SCHEMA payment_idem, then CREATE EXTENSION again: it makes the schema.';
    END IF;
END $$;
