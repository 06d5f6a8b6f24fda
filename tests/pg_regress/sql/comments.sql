-- Everything in the schema says what it is for: \d+ and \df+ are a DBA's first documentation.
\set schema '''payment_idem''::regnamespace'

-- The objects without a comment: none. (An identity column's own sequence is described by its column.)
WITH described (classoid, objoid, subid, object) AS (
    SELECT 'pg_extension'::regclass, oid, 0, 'extension ' || extname FROM pg_extension WHERE extname = 'payment_idem'
    UNION ALL
    SELECT 'pg_class'::regclass, c.oid, 0, c.relkind::text || ' ' || c.relname FROM pg_class c
    WHERE relnamespace = :schema AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c')
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE (d.classid, d.objid) = ('pg_class'::regclass, c.oid)
                                                AND d.deptype = 'i' AND d.refclassid = 'pg_class'::regclass
                                                AND c.relkind = 'S')
      AND c.relkind <> 'c' -- a composite type's comment hangs on the type
    UNION ALL
    SELECT 'pg_class'::regclass, c.oid, attnum, 'column ' || c.relname || '.' || attname
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE relnamespace = :schema AND relkind IN ('r', 'p', 'v', 'm', 'f', 'c') AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT 'pg_proc'::regclass, oid, 0, 'routine ' || oid::regprocedure FROM pg_proc WHERE pronamespace = :schema
    UNION ALL
    SELECT 'pg_type'::regclass, y.oid, 0, 'type ' || typname
    FROM pg_type y LEFT JOIN pg_class c ON c.oid = typrelid
    WHERE typnamespace = :schema AND typtype IN ('e', 'd', 'c', 'b', 'r') AND typcategory <> 'A'
      AND coalesce(c.relkind, 'c') = 'c' -- not the row types of tables
)
SELECT object FROM described
WHERE coalesce(btrim(CASE subid WHEN 0 THEN obj_description(objoid, classoid::text::name)
                                ELSE col_description(objoid, subid) END), '') = ''
ORDER BY object COLLATE "C";

-- The query sees what it should: one of each sort.
SELECT obj_description('payment_idem.orders'::regclass) IS NOT NULL AS tables,
       col_description('payment_idem.orders'::regclass, 1) IS NOT NULL AS columns,
       obj_description('payment_idem.receipt_number'::regclass) IS NOT NULL AS sequences,
       obj_description('payment_idem.order_status'::regtype) IS NOT NULL AS types,
       obj_description('payment_idem.maintain()'::regprocedure) IS NOT NULL AS procedures,
       obj_description('payment_idem.refuse_ledger_change()'::regprocedure) IS NOT NULL AS trigger_functions;

SELECT * FROM payment_idem.check_invariants();
