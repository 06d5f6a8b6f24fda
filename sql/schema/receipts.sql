-- Event identity: the unique key behind "one event, one effect".

CREATE SEQUENCE payment_idem.receipt_number AS bigint;
COMMENT ON SEQUENCE payment_idem.receipt_number IS
    'One number per event, in order of arrival: it keys the receipt, its ledger line, exception, payload and outbox rows.';

CREATE TABLE payment_idem.event_receipts (
    tenant           uuid        NOT NULL,
    source           text        COLLATE "C" NOT NULL,
    identity         text        COLLATE "C" NOT NULL,
    receipt          bigint      NOT NULL,
    identity_kind    payment_idem.identity_kind NOT NULL,
    event_id         text        COLLATE "C",
    payload_sha256   payment_idem.sha256_digest NOT NULL,
    event_type       text        COLLATE "C",
    kind             text        COLLATE "C",
    first_outcome    payment_idem.receipt_outcome NOT NULL,
    first_reason     text        COLLATE "C",
    outcome          payment_idem.receipt_outcome NOT NULL,
    reason           text        COLLATE "C",
    order_id         uuid,
    merchant_id      text        COLLATE "C",
    order_reference  text        COLLATE "C",
    gateway_order_id text        COLLATE "C",
    amount_minor     bigint,
    currency         text        COLLATE "C",
    bank_utr         text        COLLATE "C",
    payment_refs     jsonb,
    event_time       timestamptz,
    received_at      timestamptz NOT NULL,
    processed_at     timestamptz,
    -- Never a time in the key: a redelivery in the next month is still the same event.
    PRIMARY KEY (tenant, source, identity),
    CHECK ((outcome = 'parked') = (processed_at IS NULL)),
    CHECK (identity_kind = 'digest' OR identity = event_id)
);
-- In the other keys of a table the tenant comes after what is selective: to the planner an index that begins with
-- the tenant is as good as another where a tenant has few rows.
CREATE UNIQUE INDEX event_receipts_number ON payment_idem.event_receipts (receipt, tenant);
CREATE INDEX event_receipts_parked_by_reference ON payment_idem.event_receipts (order_reference, tenant)
    WHERE outcome = 'parked';
CREATE INDEX event_receipts_parked_by_gateway_order ON payment_idem.event_receipts (gateway_order_id, tenant)
    WHERE outcome = 'parked' AND gateway_order_id IS NOT NULL;
CREATE INDEX event_receipts_unsigned_id ON payment_idem.event_receipts (event_id, tenant, source)
    WHERE identity_kind = 'digest' AND event_id IS NOT NULL;
COMMENT ON TABLE payment_idem.event_receipts IS
    'One row per authentic event, with the digest of its bytes and what became of it. No payload: see payloads.';
COMMENT ON COLUMN payment_idem.event_receipts.tenant IS 'The tenant.';
COMMENT ON COLUMN payment_idem.event_receipts.source IS 'The source; event ids are unique per source.';
COMMENT ON COLUMN payment_idem.event_receipts.identity IS
    'What makes the event the same event: the signed event id, or sha256:<hex> of the body where no id is signed or readable (and /type, where the type stands outside the body).';
COMMENT ON COLUMN payment_idem.event_receipts.receipt IS 'The event''s number.';
COMMENT ON COLUMN payment_idem.event_receipts.identity_kind IS 'event_id or digest.';
COMMENT ON COLUMN payment_idem.event_receipts.event_id IS 'The gateway''s event id, where known.';
COMMENT ON COLUMN payment_idem.event_receipts.payload_sha256 IS 'SHA-256 of the exact bytes of the first delivery (32 bytes).';
COMMENT ON COLUMN payment_idem.event_receipts.event_type IS 'The gateway''s own word for the type.';
COMMENT ON COLUMN payment_idem.event_receipts.kind IS 'The normalised kind; NULL where the type is not mapped.';
COMMENT ON COLUMN payment_idem.event_receipts.first_outcome IS 'What the first delivery was answered.';
COMMENT ON COLUMN payment_idem.event_receipts.first_reason IS 'The reason then.';
COMMENT ON COLUMN payment_idem.event_receipts.outcome IS 'What has become of it by now: a parked event is applied later.';
COMMENT ON COLUMN payment_idem.event_receipts.reason IS 'The reason of that.';
COMMENT ON COLUMN payment_idem.event_receipts.order_id IS 'The order it was judged against.';
COMMENT ON COLUMN payment_idem.event_receipts.merchant_id IS 'The merchant that the body names.';
COMMENT ON COLUMN payment_idem.event_receipts.order_reference IS 'The merchant''s order reference in the event.';
COMMENT ON COLUMN payment_idem.event_receipts.gateway_order_id IS 'The gateway''s order id in the event.';
COMMENT ON COLUMN payment_idem.event_receipts.amount_minor IS 'The amount in the event, in minor units.';
COMMENT ON COLUMN payment_idem.event_receipts.currency IS 'The currency in the event, upper case; NULL where missing or ill-formed.';
COMMENT ON COLUMN payment_idem.event_receipts.bank_utr IS 'The bank''s reference in the event.';
COMMENT ON COLUMN payment_idem.event_receipts.payment_refs IS 'The payment references in the event, {kind: value}.';
COMMENT ON COLUMN payment_idem.event_receipts.event_time IS 'The gateway''s own time of the event; decides nothing about money.';
COMMENT ON COLUMN payment_idem.event_receipts.received_at IS 'When the first delivery was received.';
COMMENT ON COLUMN payment_idem.event_receipts.processed_at IS 'When it was settled; NULL while parked.';

CREATE TABLE payment_idem.payment_references (
    scope    uuid   NOT NULL,
    gateway  text   COLLATE "C" NOT NULL,
    kind     text   COLLATE "C" NOT NULL,
    value    text   COLLATE "C" NOT NULL,
    tenant   uuid   NOT NULL,
    order_id uuid   NOT NULL,
    receipt  bigint NOT NULL,
    state    payment_idem.reference_state NOT NULL,
    PRIMARY KEY (scope, gateway, kind, value)
);
COMMENT ON TABLE payment_idem.payment_references IS
    'Which order a payment belongs to: one reference never pays two orders, and events that share one are the same payment.';
COMMENT ON COLUMN payment_idem.payment_references.scope IS 'The tenant, or the nil uuid for bank references that are unique across the database.';
COMMENT ON COLUMN payment_idem.payment_references.gateway IS 'The gateway that gave the reference; empty for a bank''s, which is the same at every gateway.';
COMMENT ON COLUMN payment_idem.payment_references.kind IS 'payment, bank, refund, dispute, idempotency_hash, or a kind of the gateway''s definition.';
COMMENT ON COLUMN payment_idem.payment_references.value IS 'The reference itself.';
COMMENT ON COLUMN payment_idem.payment_references.tenant IS 'The tenant of the order.';
COMMENT ON COLUMN payment_idem.payment_references.order_id IS 'The order it belongs to.';
COMMENT ON COLUMN payment_idem.payment_references.receipt IS 'The event that brought it into its state.';
COMMENT ON COLUMN payment_idem.payment_references.state IS 'applied: its money is booked; held: it waits in an exception; contested: it waits, and an event named it together with a reference of another order, so it never pays this one.';

-- Instead of foreign keys, under which every event would share-lock the row of its source; and where no key could
-- help: what identities and references were stored under does not change beneath them.
CREATE FUNCTION payment_idem.refuse_source_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, payment_idem, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        IF NOT EXISTS (SELECT FROM payment_idem.event_receipts) THEN
            RETURN NULL;
        END IF;
    ELSIF NOT EXISTS (SELECT FROM payment_idem.event_receipts r WHERE (r.tenant, r.source) = (OLD.tenant, OLD.source)) THEN
        RETURN CASE TG_OP WHEN 'UPDATE' THEN NEW ELSE OLD END;
    ELSIF TG_OP = 'UPDATE' THEN
        IF (OLD.tenant, OLD.source, OLD.gateway, OLD.id_signed)
           IS NOT DISTINCT FROM (NEW.tenant, NEW.source, NEW.gateway, NEW.id_signed) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'foreign_key_violation',
        MESSAGE = format('%s of a source that events came from is refused', TG_OP),
        DETAIL = 'Its events are recognised by its name, its gateway and what it signs.',
        HINT = 'Make another source, and retire the secrets of this one when nothing more comes in.';
END $$;
COMMENT ON FUNCTION payment_idem.refuse_source_change() IS
    'Trigger: a source with receipts is not deleted, and keeps its name, gateway and id_signed.';
CREATE TRIGGER refuse_change BEFORE DELETE OR UPDATE OF tenant, source, gateway, id_signed ON payment_idem.sources
    FOR EACH ROW EXECUTE FUNCTION payment_idem.refuse_source_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON payment_idem.sources
    FOR EACH STATEMENT EXECUTE FUNCTION payment_idem.refuse_source_change();
ALTER TABLE payment_idem.sources ENABLE ALWAYS TRIGGER refuse_change;
ALTER TABLE payment_idem.sources ENABLE ALWAYS TRIGGER refuse_truncate;

CREATE FUNCTION payment_idem.refuse_scope_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, payment_idem, pg_temp AS $$
BEGIN
    IF OLD.bank_reference_scope = NEW.bank_reference_scope
       OR NOT EXISTS (SELECT FROM payment_idem.payment_references r
                      WHERE r.scope IN (OLD.tenant, '00000000-0000-0000-0000-000000000000')
                        AND r.gateway = '' AND r.tenant = OLD.tenant) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = 'the scope of bank references cannot change once there are some',
        DETAIL = 'References are kept under the old scope; under the new one they could pay another order.',
        HINT = 'Choose the scope before the tenant''s first payment with a bank reference.';
END $$;
COMMENT ON FUNCTION payment_idem.refuse_scope_change() IS
    'Trigger: a tenant with bank references keeps their scope.';
CREATE TRIGGER refuse_scope_change BEFORE UPDATE OF bank_reference_scope ON payment_idem.tenants
    FOR EACH ROW EXECUTE FUNCTION payment_idem.refuse_scope_change();
ALTER TABLE payment_idem.tenants ENABLE ALWAYS TRIGGER refuse_scope_change;
