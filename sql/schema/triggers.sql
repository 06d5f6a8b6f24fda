-- Every backend keeps its configuration in memory; a change reaches it with the commit.

CREATE FUNCTION payment_idem.configuration_changed() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', 'configuration_changed_wrapper';
COMMENT ON FUNCTION payment_idem.configuration_changed() IS
    'Trigger: tells every backend, with the commit, to forget what it keeps of the configuration.';

DO $$
DECLARE
    configuration regclass;
BEGIN
    FOREACH configuration IN ARRAY ARRAY[
        'payment_idem.tenants', 'payment_idem.role_grants', 'payment_idem.gateways', 'payment_idem.sources',
        'payment_idem.signing_secrets', 'payment_idem.transition_rules', 'payment_idem.currencies']::regclass[]
    LOOP
        -- Per row, as logical replication fires no statement trigger but TRUNCATE's; ALWAYS, as it replays as a replica.
        EXECUTE pg_catalog.format(
            'CREATE TRIGGER configuration_changed AFTER INSERT OR UPDATE OR DELETE ON %s '
            'FOR EACH ROW EXECUTE FUNCTION payment_idem.configuration_changed()', configuration);
        EXECUTE pg_catalog.format(
            'CREATE TRIGGER configuration_emptied AFTER TRUNCATE ON %s '
            'FOR EACH STATEMENT EXECUTE FUNCTION payment_idem.configuration_changed()', configuration);
        EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER configuration_changed', configuration);
        EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER configuration_emptied', configuration);
    END LOOP;
END $$;
