-- What is to be paid, under which names it is known, and which moves it may make.

CREATE TABLE payment_idem.transition_rules (
    tenant      uuid NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    from_status payment_idem.order_status NOT NULL,
    to_status   payment_idem.order_status NOT NULL,
    PRIMARY KEY (tenant, kind, from_status),
    CHECK (from_status <> to_status),
    -- Money and nothing else completes an order, and money does nothing else to it.
    CONSTRAINT transition_rules_money CHECK ((kind = 'payment_succeeded') = (to_status = 'COMPLETED')),
    CONSTRAINT transition_rules_refund CHECK (to_status <> 'REFUNDED' OR kind = 'refund_settled')
);
COMMENT ON TABLE payment_idem.transition_rules IS
    'The allowed moves of an order, one row per edge. A tenant with rows of its own uses those; all others use the rows of the nil uuid.';
COMMENT ON COLUMN payment_idem.transition_rules.tenant IS 'The tenant; the nil uuid holds the default set.';
COMMENT ON COLUMN payment_idem.transition_rules.kind IS 'The normalised kind of event that makes the move.';
COMMENT ON COLUMN payment_idem.transition_rules.from_status IS 'The status before.';
COMMENT ON COLUMN payment_idem.transition_rules.to_status IS 'The status after.';

-- Every default edge goes up in PENDING < PROCESSING < FAILED < EXPIRED < COMPLETED, so that events
-- end in the same status whatever the order in which they arrive.
INSERT INTO payment_idem.transition_rules
SELECT '00000000-0000-0000-0000-000000000000', kind, from_status, to_status
FROM (VALUES
    ('payment_attempted',  ARRAY['PENDING'],                                    'PROCESSING'),
    ('payment_authorized', ARRAY['PENDING'],                                    'PROCESSING'),
    ('payment_failed',     ARRAY['PENDING', 'PROCESSING'],                      'FAILED'),
    ('payment_expired',    ARRAY['PENDING', 'PROCESSING', 'FAILED'],            'EXPIRED'),
    ('payment_succeeded',  ARRAY['PENDING', 'PROCESSING', 'FAILED', 'EXPIRED'], 'COMPLETED')
) AS edge (kind, from_statuses, to_status_name),
    LATERAL unnest(from_statuses::payment_idem.order_status[]) AS from_status,
    LATERAL CAST(to_status_name AS payment_idem.order_status) AS to_status;

CREATE TABLE payment_idem.orders (
    tenant           uuid        NOT NULL,
    order_id         uuid        NOT NULL,
    merchant_id      text        COLLATE "C" NOT NULL,
    client_txn_id    text        COLLATE "C" NOT NULL,
    amount_minor     payment_idem.positive NOT NULL,
    currency         payment_idem.currency_code NOT NULL,
    status           payment_idem.order_status NOT NULL DEFAULT 'PENDING',
    paid_minor       payment_idem.not_negative NOT NULL DEFAULT 0,
    refunded_minor   payment_idem.not_negative NOT NULL DEFAULT 0,
    disputed_minor   payment_idem.not_negative NOT NULL DEFAULT 0,
    version          bigint      NOT NULL DEFAULT 0,
    ledger_seq       payment_idem.not_negative NOT NULL DEFAULT 0,
    ledger_head      payment_idem.sha256_digest,
    outbox_seq       payment_idem.not_negative NOT NULL DEFAULT 0,
    gateway_order_id text        COLLATE "C",
    expires_at       timestamptz,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (tenant, order_id),
    -- The reference first and the merchant last: the same index finds an order whose merchant the source does not name.
    CONSTRAINT orders_merchant_reference UNIQUE (client_txn_id, tenant, merchant_id),
    CONSTRAINT orders_completed_is_paid CHECK (status NOT IN ('COMPLETED', 'REFUNDED') OR paid_minor >= amount_minor),
    CONSTRAINT orders_refunded_was_paid CHECK (refunded_minor <= paid_minor),
    CONSTRAINT orders_head_with_ledger CHECK ((ledger_seq = 0) = (ledger_head IS NULL))
) WITH (fillfactor = 80); -- room on the page for the one update that pays an order
COMMENT ON TABLE payment_idem.orders IS 'What is to be paid, and how far that has come. Events change it under its row lock only.';
COMMENT ON COLUMN payment_idem.orders.tenant IS 'The tenant whose order it is.';
COMMENT ON COLUMN payment_idem.orders.order_id IS 'Our key; time-ordered (UUIDv7), which keeps every index on it local.';
COMMENT ON COLUMN payment_idem.orders.merchant_id IS 'The merchant within the tenant.';
COMMENT ON COLUMN payment_idem.orders.client_txn_id IS 'The merchant''s own reference of the order; unique per merchant.';
COMMENT ON COLUMN payment_idem.orders.amount_minor IS 'What is to be paid, in minor units of the currency.';
COMMENT ON COLUMN payment_idem.orders.currency IS 'ISO 4217 code, upper case.';
COMMENT ON COLUMN payment_idem.orders.status IS 'Where the order stands.';
COMMENT ON COLUMN payment_idem.orders.paid_minor IS 'What was booked as paid, in minor units.';
COMMENT ON COLUMN payment_idem.orders.refunded_minor IS 'What was booked as refunded, in minor units.';
COMMENT ON COLUMN payment_idem.orders.disputed_minor IS 'What is under dispute, in minor units.';
COMMENT ON COLUMN payment_idem.orders.version IS 'Raised by every change of the row.';
COMMENT ON COLUMN payment_idem.orders.ledger_seq IS 'The seq of its last ledger line; 0 where there is none.';
COMMENT ON COLUMN payment_idem.orders.ledger_head IS 'The hash of its last ledger line, the head of the chain.';
COMMENT ON COLUMN payment_idem.orders.outbox_seq IS 'The seq of its last outbox row; 0 where there is none.';
COMMENT ON COLUMN payment_idem.orders.gateway_order_id IS
    'The gateway''s id of the order, where the caller told it; unique through order_keys, so that setting it is no key update.';
COMMENT ON COLUMN payment_idem.orders.expires_at IS 'When it is meant to expire if unpaid; kept, and not acted upon: only a payment_expired event moves the order.';
COMMENT ON COLUMN payment_idem.orders.created_at IS 'When the order was made.';
COMMENT ON COLUMN payment_idem.orders.updated_at IS 'When the order last changed.';

CREATE TABLE payment_idem.order_keys (
    tenant   uuid   NOT NULL,
    kind     payment_idem.order_key_kind NOT NULL,
    value    text   COLLATE "C" NOT NULL,
    order_id uuid,
    touched  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, kind, value),
    CHECK (kind = 'gateway_order' OR order_id IS NULL)
);
COMMENT ON TABLE payment_idem.order_keys IS
    'Where an event without an order and the order it waits for meet: both write the row of the reference before they look. Also keeps gateway order ids unique.';
COMMENT ON COLUMN payment_idem.order_keys.tenant IS 'The tenant.';
COMMENT ON COLUMN payment_idem.order_keys.kind IS 'client_txn (a merchant''s reference) or gateway_order (a gateway''s order id).';
COMMENT ON COLUMN payment_idem.order_keys.value IS 'The reference itself.';
COMMENT ON COLUMN payment_idem.order_keys.order_id IS 'The order that owns a gateway order id; NULL while events wait for it, and for client_txn.';
COMMENT ON COLUMN payment_idem.order_keys.touched IS
    'Counts the meetings; it is written, not only locked, so that REPEATABLE READ fails with 40001 instead of missing the other side.';

CREATE FUNCTION payment_idem.refuse_order_delete() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, payment_idem, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        IF NOT EXISTS (SELECT FROM payment_idem.orders WHERE ledger_seq > 0) THEN
            UPDATE payment_idem.order_keys SET order_id = NULL WHERE order_id IS NOT NULL;
            RETURN NULL;
        END IF;
    ELSIF OLD.ledger_seq = 0 THEN
        UPDATE payment_idem.order_keys k SET order_id = NULL
        WHERE (k.tenant, k.kind, k.value, k.order_id)
            = (OLD.tenant, 'gateway_order', OLD.gateway_order_id, OLD.order_id);
        RETURN OLD;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'foreign_key_violation',
        MESSAGE = format('%s of orders with ledger lines is refused', TG_OP),
        DETAIL = 'The ledger is append-only; an order with money history stays.',
        HINT = 'Correct a booking with a new event.';
END $$;
COMMENT ON FUNCTION payment_idem.refuse_order_delete() IS
    'Trigger: ON DELETE RESTRICT from the ledger, without a foreign key that would lock orders at every new partition; an order that may go gives its gateway order id back.';
CREATE TRIGGER refuse_delete BEFORE DELETE ON payment_idem.orders
    FOR EACH ROW EXECUTE FUNCTION payment_idem.refuse_order_delete();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON payment_idem.orders
    FOR EACH STATEMENT EXECUTE FUNCTION payment_idem.refuse_order_delete();
ALTER TABLE payment_idem.orders ENABLE ALWAYS TRIGGER refuse_delete;
ALTER TABLE payment_idem.orders ENABLE ALWAYS TRIGGER refuse_truncate;
