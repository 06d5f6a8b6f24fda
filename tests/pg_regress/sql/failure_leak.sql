-- P5: nothing is looked at before the signature holds, and nothing that we write holds a secret, a signature or a payload.
SET client_min_messages = warning;
SELECT payment_idem.create_tenant('leak', '50505050-0000-4000-8000-000000000005') IS NOT NULL AS made;
SELECT payment_idem.create_source('50505050-0000-4000-8000-000000000005', 'default', 'generic', '{"merchant_id": "m1"}');
SELECT payment_idem.add_secret('50505050-0000-4000-8000-000000000005', 'default', 'whsec_MARK_OF_SECRET') > 0 AS added;
SELECT outcome FROM payment_idem.create_order('50505050-0000-4000-8000-000000000005', 'm1', 'O1', 10.00, 'USD');
CREATE FUNCTION pg_temp.body(id text, amount text) RETURNS text LANGUAGE sql AS $$
    SELECT format('{"id":"%s","type":"paid","order":"O1","amount":%s,"currency":"usd","payment":"pi_1","note":"MARK_OF_PAYLOAD"}', id, amount)
$$;
CREATE FUNCTION pg_temp.sig(body text, secret text) RETURNS text LANGUAGE sql AS $$
    SELECT encode(hmac(convert_to(body, 'UTF8'), convert_to(secret, 'UTF8'), 'sha256'), 'hex')
$$;
CREATE FUNCTION pg_temp.deliver(body text, secret text DEFAULT 'whsec_MARK_OF_SECRET') RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws('/', outcome, reason)
    FROM payment_idem.ingest('50505050-0000-4000-8000-000000000005', NULL, body, pg_temp.sig(body, secret))
$$;

-- A forged delivery reads none of the tenant's orders, receipts or references, and writes nothing at all.
SELECT pg_temp.deliver(pg_temp.body('evt_0', '1000'), 'forged_secret'); -- the source is in memory now
SELECT pg_stat_force_next_flush(); -- the next transaction counts from zero
BEGIN;
SELECT count(pg_temp.deliver(pg_temp.body('evt_0', '1000'), 'forged_secret')) AS forged FROM generate_series(1, 5);
SELECT relname AS touched FROM pg_stat_xact_all_tables
WHERE schemaname = 'payment_idem' AND coalesce(seq_scan, 0) + coalesce(idx_scan, 0) + n_tup_ins + n_tup_upd + n_tup_del > 0;
SELECT pg_current_xact_id_if_assigned() IS NULL AS wrote_nothing;
COMMIT;
-- Broken JSON under a forged signature is forged, not unreadable: nobody has parsed it.
SELECT pg_temp.deliver('{"id":', 'forged_secret');

-- Every outcome that leaves a row.
SELECT pg_temp.deliver(pg_temp.body('evt_1', '1000'));
SELECT pg_temp.deliver(pg_temp.body('evt_1', '1001'));
SELECT pg_temp.deliver(pg_temp.body('evt_2', '999'));
SELECT pg_temp.deliver('{"MARK_OF_PAYLOAD":');
SELECT outcome, reason FROM payment_idem.ingest('50505050-0000-4000-8000-000000000005', 'other_id', pg_temp.body('evt_3', '1000'),
    pg_temp.sig(pg_temp.body('evt_3', '1000'), 'whsec_MARK_OF_SECRET'));

-- No table but the evidence and the secrets themselves holds a mark, in any spelling that a row prints.
CREATE TEMP TABLE marks (relation text, rows_with_a_mark bigint);
DO $$
DECLARE
    relation regclass;
    sig text := pg_temp.sig(pg_temp.body('evt_1', '1000'), 'whsec_MARK_OF_SECRET');
    found bigint;
BEGIN
    FOR relation IN SELECT oid::regclass FROM pg_class WHERE relnamespace = 'payment_idem'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format($q$SELECT count(*) FROM %s AS r
                          WHERE r::text ~ 'MARK_OF_(SECRET|PAYLOAD)' OR strpos(r::text, %L) > 0
                             OR r::text ~ encode('MARK_OF_SECRET', 'hex') OR r::text ~ encode('MARK_OF_PAYLOAD', 'hex')$q$,
                       relation, sig) INTO found;
        IF found > 0 THEN
            INSERT INTO marks VALUES (regexp_replace(relation::text, '_(\d{4}_\d\d|open)$', ''), found);
        END IF;
    END LOOP;
END $$;
SELECT relation, sum(rows_with_a_mark) FROM marks GROUP BY 1 ORDER BY 1;

-- Nor do the planner's statistics, which outlive what they sample.
ANALYZE payment_idem.payloads, payment_idem.signing_secrets;
SELECT tablename, attname FROM pg_stats
WHERE schemaname = 'payment_idem' AND attname IN ('raw_payload', 'payer_vpa', 'customer_mobile', 'secret')
  AND (most_common_vals IS NOT NULL OR histogram_bounds IS NOT NULL);

-- An error in the middle shows the statement that failed, without a value of the delivery.
CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by the shop'; END $$;
BEGIN;
CREATE TRIGGER refuse BEFORE INSERT ON payment_idem.event_receipts FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
DO $$
DECLARE
    message text; detail text; hint text; context text;
BEGIN
    PERFORM payment_idem.ingest('50505050-0000-4000-8000-000000000005', NULL, body, pg_temp.sig(body, 'whsec_MARK_OF_SECRET'))
    FROM (SELECT pg_temp.body('evt_9', '1000')) AS delivery (body);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
    RAISE WARNING '%, says where: %, tells a mark: %', message, context LIKE '%INSERT INTO payment_idem.event_receipts%',
        concat(message, detail, hint, split_part(context, 'SQL statement "SELECT payment_idem.ingest', 1)) ~ 'MARK_OF|pi_1|evt_9';
END $$;
ROLLBACK;
SELECT * FROM payment_idem.check_invariants();
