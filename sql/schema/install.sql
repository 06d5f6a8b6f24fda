-- What must hold before anything is made, and the definitions that are shipped.

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
