-- The ledger: append-only, chained per order, in monthly partitions.

CREATE TABLE payment_idem.transactions (
    tenant           uuid        NOT NULL,
    receipt          bigint      NOT NULL,
    kind             text        COLLATE "C" NOT NULL,
    order_id         uuid        NOT NULL,
    seq              payment_idem.positive NOT NULL,
    event_type       payment_idem.payment_event_type NOT NULL,
    amount_minor     bigint      NOT NULL,
    currency         text        COLLATE "C" NOT NULL,
    from_status      payment_idem.order_status NOT NULL,
    to_status        payment_idem.order_status NOT NULL,
    source           text        COLLATE "C" NOT NULL,
    event_id         text        COLLATE "C",
    gateway_order_id text        COLLATE "C",
    bank_utr         text        COLLATE "C",
    created_at       payment_idem.finite_time NOT NULL,
    chain_version    payment_idem.chain_version NOT NULL,
    prev_hash        payment_idem.sha256_digest,
    hash             payment_idem.sha256_digest NOT NULL,
    CHECK ((seq = 1) = (prev_hash IS NULL))
) PARTITION BY RANGE (created_at);
COMMENT ON TABLE payment_idem.transactions IS
    'The ledger: one line per applied event, never changed, chained per order by SHA-256. Keys live on each partition: (tenant, receipt, kind) and (order_id, tenant, seq).';
COMMENT ON COLUMN payment_idem.transactions.tenant IS 'The tenant.';
COMMENT ON COLUMN payment_idem.transactions.receipt IS 'The number of the event that it books.';
COMMENT ON COLUMN payment_idem.transactions.kind IS 'The normalised kind of that event.';
COMMENT ON COLUMN payment_idem.transactions.order_id IS 'The order.';
COMMENT ON COLUMN payment_idem.transactions.seq IS 'Counts the order''s lines from 1, without a gap.';
COMMENT ON COLUMN payment_idem.transactions.event_type IS 'How it came to be known.';
COMMENT ON COLUMN payment_idem.transactions.amount_minor IS 'Signed minor units: paid is positive, refunded negative, 0 where no money moved.';
COMMENT ON COLUMN payment_idem.transactions.currency IS 'The order''s currency.';
COMMENT ON COLUMN payment_idem.transactions.from_status IS 'The order''s status before.';
COMMENT ON COLUMN payment_idem.transactions.to_status IS 'The order''s status after.';
COMMENT ON COLUMN payment_idem.transactions.source IS 'The source of the event.';
COMMENT ON COLUMN payment_idem.transactions.event_id IS 'The gateway''s event id.';
COMMENT ON COLUMN payment_idem.transactions.gateway_order_id IS 'The gateway''s order id in the event.';
COMMENT ON COLUMN payment_idem.transactions.bank_utr IS 'The bank''s reference in the event.';
COMMENT ON COLUMN payment_idem.transactions.created_at IS 'When the line was written; decides its partition (UTC months).';
COMMENT ON COLUMN payment_idem.transactions.chain_version IS 'Version of the encoding that is hashed; 1 covers every column above.';
COMMENT ON COLUMN payment_idem.transactions.prev_hash IS 'The hash of the order''s line before; NULL for the first.';
COMMENT ON COLUMN payment_idem.transactions.hash IS 'SHA-256 over every other column: see ledger_line_hash.';

CREATE FUNCTION payment_idem.chain_field(field bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(pg_catalog.int4send(pg_catalog.octet_length(field)) OPERATOR(pg_catalog.||) field,
                           '\xffffffff'::bytea);
COMMENT ON FUNCTION payment_idem.chain_field(bytea) IS
    'One field of a hashed text: its length in 4 bytes, then its bytes; ffffffff for NULL. Length-prefixed, so that no two rows read alike.';

-- Written in SQL, apart from the Rust that makes the hash: two authors must agree on every line.
CREATE FUNCTION payment_idem.ledger_line_hash(line payment_idem.transactions) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, payment_idem, pg_temp AS $$
    SELECT sha256(
        chain_field(int2send(line.chain_version))
        || chain_field(line.prev_hash)
        || chain_field(uuid_send(line.tenant))
        || chain_field(int8send(line.receipt))
        || chain_field(convert_to(line.kind, 'UTF8'))
        || chain_field(uuid_send(line.order_id))
        || chain_field(int8send(line.seq))
        || chain_field(convert_to(line.event_type::text, 'UTF8'))
        || chain_field(int8send(line.amount_minor))
        || chain_field(convert_to(line.currency, 'UTF8'))
        || chain_field(convert_to(line.from_status::text, 'UTF8'))
        || chain_field(convert_to(line.to_status::text, 'UTF8'))
        || chain_field(convert_to(line.source, 'UTF8'))
        || chain_field(convert_to(line.event_id, 'UTF8'))
        || chain_field(convert_to(line.gateway_order_id, 'UTF8'))
        || chain_field(convert_to(line.bank_utr, 'UTF8'))
        || chain_field(timestamptz_send(line.created_at)))
$$;
COMMENT ON FUNCTION payment_idem.ledger_line_hash(payment_idem.transactions) IS
    'What the hash of a ledger line must be, over every other column (chain_version 1).';

CREATE FUNCTION payment_idem.refuse_ledger_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, payment_idem, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'restrict_violation',
        MESSAGE = format('%s of the ledger is refused', TG_OP),
        DETAIL = format('Table %I.%I is append-only.', TG_TABLE_SCHEMA, TG_TABLE_NAME),
        HINT = 'Correct a booking with a new event; archive whole months by detaching their partition.';
END $$;
COMMENT ON FUNCTION payment_idem.refuse_ledger_change() IS 'Trigger: the ledger is append-only.';
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE ON payment_idem.transactions
    FOR EACH ROW EXECUTE FUNCTION payment_idem.refuse_ledger_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON payment_idem.transactions
    FOR EACH STATEMENT EXECUTE FUNCTION payment_idem.refuse_ledger_change();
-- ALWAYS: session_replication_role = replica does not get past them.
ALTER TABLE payment_idem.transactions ENABLE ALWAYS TRIGGER refuse_change;
ALTER TABLE payment_idem.transactions ENABLE ALWAYS TRIGGER refuse_truncate;
