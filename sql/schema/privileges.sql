-- Nothing for PUBLIC: who may do what is granted, never assumed. Runs last, when everything exists.

REVOKE ALL ON SCHEMA payment_idem FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA payment_idem FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA payment_idem FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA payment_idem FROM PUBLIC;
DO $$
DECLARE
    of_ours regtype;
BEGIN
    FOR of_ours IN SELECT oid FROM pg_catalog.pg_type WHERE typnamespace = 'payment_idem'::regnamespace AND typtype IN ('c', 'd', 'e')
                   AND (typrelid = 0 OR (SELECT relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = typrelid)) LOOP
        EXECUTE pg_catalog.format('REVOKE USAGE ON TYPE %s FROM PUBLIC', of_ours);
    END LOOP;
END $$;
