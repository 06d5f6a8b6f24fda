-- What has to be done outside the database, queued with the transition that asks for it.

CREATE TABLE payment_idem.outbox (
    tenant       uuid        NOT NULL,
    receipt      bigint      NOT NULL,
    action       payment_idem.outbox_action NOT NULL,
    order_id     uuid,
    seq          payment_idem.positive,
    attempts     payment_idem.counter NOT NULL DEFAULT 0,
    available_at timestamptz NOT NULL,
    lease_token  uuid,
    lease_until  timestamptz,
    worker       text,
    last_error   text,
    created_at   timestamptz NOT NULL,
    delivered_at timestamptz,
    -- One row per event and action: nobody can queue the same fulfilment twice.
    PRIMARY KEY (tenant, receipt, action),
    CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CHECK ((order_id IS NULL) = (seq IS NULL))
);
CREATE INDEX outbox_due ON payment_idem.outbox (available_at) WHERE delivered_at IS NULL;
CREATE UNIQUE INDEX outbox_lease ON payment_idem.outbox (lease_token) WHERE lease_token IS NOT NULL;
COMMENT ON TABLE payment_idem.outbox IS
    'Durable side effects: written with the transition, claimed by workers, acknowledged when done.';
COMMENT ON COLUMN payment_idem.outbox.tenant IS 'The tenant.';
COMMENT ON COLUMN payment_idem.outbox.receipt IS 'The number of the event that asks for it.';
COMMENT ON COLUMN payment_idem.outbox.action IS 'What to do: fulfil_order, or fetch_status of a payment of which the event carries the id only.';
COMMENT ON COLUMN payment_idem.outbox.order_id IS 'For which order; NULL where the event carries too little to name one.';
COMMENT ON COLUMN payment_idem.outbox.seq IS 'Counts the order''s rows from 1.';
COMMENT ON COLUMN payment_idem.outbox.attempts IS 'How often it was claimed.';
COMMENT ON COLUMN payment_idem.outbox.available_at IS 'Not to be claimed before this moment: the end of a lease, or of a back-off.';
COMMENT ON COLUMN payment_idem.outbox.lease_token IS 'Proves the current claim; a new one at every claim.';
COMMENT ON COLUMN payment_idem.outbox.lease_until IS 'When the current claim ends.';
COMMENT ON COLUMN payment_idem.outbox.worker IS 'Who claimed it last.';
COMMENT ON COLUMN payment_idem.outbox.last_error IS 'What the last failed attempt said.';
COMMENT ON COLUMN payment_idem.outbox.created_at IS 'When it was queued.';
COMMENT ON COLUMN payment_idem.outbox.delivered_at IS 'When a worker acknowledged it; NULL until then.';

CREATE FUNCTION payment_idem.message_id(tenant uuid, source text, identity text, action text) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, payment_idem, pg_temp AS $$
    SELECT encode(substring(sha256(chain_field(uuid_send(tenant))
                                   || chain_field(convert_to(source, 'UTF8'))
                                   || chain_field(convert_to(identity, 'UTF8'))
                                   || chain_field(convert_to(action, 'UTF8'))) FOR 16), 'hex')::uuid
$$;
COMMENT ON FUNCTION payment_idem.message_id(uuid, text, text, text) IS
    'The idempotency key of an outbox row, derived from the event: the same event makes the same message on any server.';
