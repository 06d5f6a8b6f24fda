-- What pg_dump takes along: rows that users made, not those that the install script makes.

DO $$
DECLARE
    dumped record;
BEGIN
    -- One by one: each call updates the same catalogue row.
    FOR dumped IN
        SELECT * FROM (VALUES
            ('tenants', ''), ('role_grants', ''), ('role_grants_grant_id_seq', ''),
            ('gateways', 'WHERE NOT built_in'), ('currencies', 'WHERE NOT built_in'),
            ('transition_rules', 'WHERE tenant <> ''00000000-0000-0000-0000-000000000000'''),
            ('sources', ''), ('signing_secrets', ''), ('signing_secrets_secret_id_seq', ''),
            ('orders', ''), ('order_keys', ''), ('receipt_number', ''), ('event_receipts', ''), ('payment_references', ''),
            ('exceptions', ''), ('exception_references', ''), ('replays', ''), ('replays_replay_id_seq', ''), ('anomalies', ''), ('anomalies_anomaly_id_seq', ''),
            ('transactions', ''), ('payloads', ''), ('outbox', '')
        ) AS listed (relation, condition)
    LOOP
        PERFORM pg_catalog.pg_extension_config_dump(('payment_idem.' || dumped.relation)::pg_catalog.regclass,
                                                    dumped.condition);
    END LOOP;
END $$;
