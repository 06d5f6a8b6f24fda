-- Monthly partitions on UTC bounds. Together they cover all of time (the first one reaches back, the last one
-- reaches ahead), so that no insert ever fails for a missing month; there is no DEFAULT partition, which would
-- forbid concurrent detach. None is made by the install script: a member table made at run time breaks restore.

CREATE FUNCTION payment_idem.make_partition(parent text, partition text, lower_bound timestamptz, upper_bound timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, payment_idem, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
BEGIN
    IF to_regclass(format('payment_idem.%I', partition)) IS NULL THEN
        EXECUTE format('CREATE TABLE payment_idem.%I (LIKE payment_idem.%I INCLUDING ALL)', partition, parent);
        EXECUTE format('COMMENT ON TABLE payment_idem.%I IS %L', partition,
                       format('Partition of %s; see there.', parent));
        CASE parent
            WHEN 'transactions' THEN
                EXECUTE format('ALTER TABLE payment_idem.%I ADD PRIMARY KEY (tenant, receipt, kind), '
                               'ADD UNIQUE (order_id, tenant, seq)', partition);
                -- Row triggers are cloned by ATTACH, statement triggers are not.
                EXECUTE format('CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON payment_idem.%I '
                               'FOR EACH STATEMENT EXECUTE FUNCTION payment_idem.refuse_ledger_change()', partition);
                EXECUTE format('ALTER TABLE payment_idem.%I ENABLE ALWAYS TRIGGER refuse_truncate', partition);
            WHEN 'payloads' THEN
                EXECUTE format('ALTER TABLE payment_idem.%I ALTER COLUMN raw_payload SET STATISTICS 0, '
                               'ALTER COLUMN payer_vpa SET STATISTICS 0, ALTER COLUMN customer_mobile SET STATISTICS 0', partition);
                EXECUTE format('CREATE INDEX ON payment_idem.%I (tenant, receipt)', partition);
                EXECUTE format('CREATE INDEX ON payment_idem.%I (order_id, tenant) '
                               'WHERE customer_mobile IS NOT NULL', partition);
        END CASE;
    END IF;
    -- CREATE, then ATTACH: writers to the parent are not locked out, as CREATE ... PARTITION OF would.
    EXECUTE format('ALTER TABLE payment_idem.%I ATTACH PARTITION payment_idem.%I FOR VALUES FROM (%s) TO (%s)',
                   parent, partition,
                   CASE lower_bound WHEN '-infinity' THEN 'MINVALUE' ELSE quote_literal(lower_bound) END,
                   CASE upper_bound WHEN 'infinity' THEN 'MAXVALUE' ELSE quote_literal(upper_bound) END);
END $$;
COMMENT ON FUNCTION payment_idem.make_partition(text, text, timestamptz, timestamptz) IS
    'Makes the partition where it is missing, with its keys and triggers, and attaches it. Infinite bounds become MINVALUE and MAXVALUE.';

CREATE FUNCTION payment_idem.open_partition_start(parent text) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, payment_idem, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
    SELECT (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('([^']+)'\) TO \(MAXVALUE\)$re$))[1]::timestamptz
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass(format('payment_idem.%I', parent)) AND c.relname = parent || '_open'
$$;
COMMENT ON FUNCTION payment_idem.open_partition_start(text) IS
    'Where the open-ended last partition begins; NULL where there are no partitions yet.';

CREATE FUNCTION payment_idem.ensure_partitions(months_ahead integer DEFAULT 3) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, payment_idem, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    this_month CONSTANT timestamptz := date_trunc('month', clock_timestamp());
    target     CONSTANT timestamptz := this_month + make_interval(months => months_ahead + 1);
    parent     text;
    next_month timestamptz;
    last_row   timestamptz;
    made       integer := 0;
BEGIN
    IF months_ahead IS NULL OR months_ahead NOT BETWEEN 1 AND 120 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'invalid value for argument "months_ahead"',
            DETAIL = 'It is not between 1 and 120: for how many months the ledger is made ready.',
            HINT = 'Leave it out for three.';
    END IF;
    FOREACH parent IN ARRAY ARRAY['transactions', 'payloads'] LOOP
        CONTINUE WHEN open_partition_start(parent) >= target; -- the usual case takes no lock
        EXECUTE format('LOCK TABLE payment_idem.%I IN SHARE UPDATE EXCLUSIVE MODE', parent);
        next_month := open_partition_start(parent);
        CONTINUE WHEN next_month >= target;                   -- somebody else was faster

        IF next_month IS NULL THEN
            next_month := this_month + interval '1 month';
            PERFORM make_partition(parent, format('%s_%s', parent, to_char(this_month, 'YYYY_MM')), '-infinity', next_month);
            made := made + 1;
        ELSE
            -- The open-ended partition makes room for months; what it holds already stays together in one.
            EXECUTE format('LOCK TABLE payment_idem.%I IN ACCESS EXCLUSIVE MODE', parent);
            EXECUTE format('SELECT max(%I) FROM payment_idem.%I',
                           CASE parent WHEN 'transactions' THEN 'created_at' ELSE 'received_at' END,
                           parent || '_open') INTO last_row;
            IF last_row IS NULL THEN
                EXECUTE format('DROP TABLE payment_idem.%I', parent || '_open');
            ELSE
                EXECUTE format('ALTER TABLE payment_idem.%I DETACH PARTITION payment_idem.%I', parent, parent || '_open');
                EXECUTE format('ALTER TABLE payment_idem.%I RENAME TO %I', parent || '_open',
                               format('%s_%s', parent, to_char(next_month, 'YYYY_MM')));
                PERFORM make_partition(parent, format('%s_%s', parent, to_char(next_month, 'YYYY_MM')), next_month,
                                       greatest(date_trunc('month', last_row), this_month) + interval '1 month');
                next_month := greatest(date_trunc('month', last_row), this_month) + interval '1 month';
            END IF;
        END IF;

        WHILE next_month < target LOOP
            PERFORM make_partition(parent, format('%s_%s', parent, to_char(next_month, 'YYYY_MM')),
                                   next_month, next_month + interval '1 month');
            next_month := next_month + interval '1 month';
            made := made + 1;
        END LOOP;
        PERFORM make_partition(parent, parent || '_open', next_month, 'infinity');
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;
COMMENT ON FUNCTION payment_idem.ensure_partitions(integer) IS
    'Makes the monthly partitions of transactions and payloads for this many months ahead, in UTC; returns how many were made. Idempotent.';

CREATE PROCEDURE payment_idem.maintain()
LANGUAGE plpgsql AS $$
DECLARE
    tries_left integer := 10;
BEGIN
    LOOP
        BEGIN
            -- Never make deliveries queue behind maintenance for longer than this.
            PERFORM pg_catalog.set_config('lock_timeout', '500ms', true);
            PERFORM payment_idem.ensure_partitions();
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            tries_left := tries_left - 1;
            IF tries_left = 0 THEN
                RAISE;
            END IF;
        END;
        COMMIT;
        PERFORM pg_catalog.pg_sleep(0.2);
    END LOOP;
    COMMIT;
END $$;
COMMENT ON PROCEDURE payment_idem.maintain() IS
    'Upkeep for any scheduler to CALL, daily or so: makes partitions ahead of time, with short locks and retries. Not inside a transaction block.';
