-- What a person has to look at.

CREATE TABLE payment_idem.exceptions (
    tenant                uuid        NOT NULL,
    exception_id          bigint      NOT NULL,
    source                text        COLLATE "C" NOT NULL,
    kind                  text        COLLATE "C" NOT NULL CHECK (kind IN (
        'amount_mismatch', 'currency_mismatch', 'reference_mismatch', 'second_payment', 'reference_reused',
        'late_payment', 'transition_not_allowed', 'over_refund', 'payload_unreadable')),
    order_id              uuid,
    amount_minor          bigint,
    currency              text        COLLATE "C",
    expected_amount_minor bigint,
    expected_currency     text        COLLATE "C",
    reference_kind        text        COLLATE "C",
    reference_value       text        COLLATE "C",
    detail                text,
    opened_at             timestamptz NOT NULL,
    resolution            text        COLLATE "C",
    note                  text,
    resolved_by           name,
    resolved_at           timestamptz,
    PRIMARY KEY (tenant, exception_id),
    FOREIGN KEY (tenant, order_id) REFERENCES payment_idem.orders,
    CHECK ((resolution IS NULL) = (resolved_at IS NULL))
);
CREATE INDEX exceptions_of_order ON payment_idem.exceptions (order_id, tenant);
CREATE INDEX exceptions_open ON payment_idem.exceptions (tenant, opened_at) WHERE resolved_at IS NULL;
COMMENT ON TABLE payment_idem.exceptions IS
    'Authentic events that were not acceptable as business: money may be at stake, and somebody has to decide.';
COMMENT ON COLUMN payment_idem.exceptions.tenant IS 'The tenant.';
COMMENT ON COLUMN payment_idem.exceptions.exception_id IS 'The number of the event that raised it.';
COMMENT ON COLUMN payment_idem.exceptions.source IS 'The source that the event came from.';
COMMENT ON COLUMN payment_idem.exceptions.kind IS 'The reason, as ingest answered it.';
COMMENT ON COLUMN payment_idem.exceptions.order_id IS 'The order concerned; NULL where the body could not be read.';
COMMENT ON COLUMN payment_idem.exceptions.amount_minor IS 'The money at stake, in minor units, as the event names it.';
COMMENT ON COLUMN payment_idem.exceptions.currency IS 'Its currency; NULL where missing or ill-formed.';
COMMENT ON COLUMN payment_idem.exceptions.expected_amount_minor IS 'What the order asks for, in minor units.';
COMMENT ON COLUMN payment_idem.exceptions.expected_currency IS 'In which currency.';
COMMENT ON COLUMN payment_idem.exceptions.reference_kind IS 'The kind of the payment''s first reference.';
COMMENT ON COLUMN payment_idem.exceptions.reference_value IS 'That reference.';
COMMENT ON COLUMN payment_idem.exceptions.detail IS 'What is wrong, in words that quote no payload.';
COMMENT ON COLUMN payment_idem.exceptions.opened_at IS 'When it was raised.';
COMMENT ON COLUMN payment_idem.exceptions.resolution IS 'How it was resolved; NULL while open.';
COMMENT ON COLUMN payment_idem.exceptions.note IS 'What the person who resolved it wrote.';
COMMENT ON COLUMN payment_idem.exceptions.resolved_by IS 'Who resolved it.';
COMMENT ON COLUMN payment_idem.exceptions.resolved_at IS 'When it was resolved; NULL while open.';

CREATE TABLE payment_idem.exception_references (
    scope        uuid   NOT NULL,
    gateway      text   COLLATE "C" NOT NULL,
    kind         text   COLLATE "C" NOT NULL,
    value        text   COLLATE "C" NOT NULL,
    exception_id bigint NOT NULL,
    tenant       uuid   NOT NULL,
    PRIMARY KEY (scope, gateway, kind, value, exception_id)
);
COMMENT ON TABLE payment_idem.exception_references IS
    'Which exceptions are about a payment: one is raised per payment, and found by any of its references.';
COMMENT ON COLUMN payment_idem.exception_references.scope IS 'As in payment_references.';
COMMENT ON COLUMN payment_idem.exception_references.gateway IS 'As in payment_references.';
COMMENT ON COLUMN payment_idem.exception_references.kind IS 'As in payment_references.';
COMMENT ON COLUMN payment_idem.exception_references.value IS 'The reference itself.';
COMMENT ON COLUMN payment_idem.exception_references.exception_id IS 'The exception whose event names it.';
COMMENT ON COLUMN payment_idem.exception_references.tenant IS 'The tenant of the exception.';

CREATE TABLE payment_idem.replays (
    replay_id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant         uuid        NOT NULL,
    source         text        COLLATE "C" NOT NULL,
    payload_sha256 bytea       NOT NULL CHECK (octet_length(payload_sha256) = 32),
    outcome        text        COLLATE "C" NOT NULL,
    reason         text        COLLATE "C",
    why            text        NOT NULL CHECK (btrim(why) <> ''),
    replayed_by    name        NOT NULL,
    replayed_at    timestamptz NOT NULL
);
COMMENT ON TABLE payment_idem.replays IS 'Who replayed which delivery past its age check, why, and what came of it.';
COMMENT ON COLUMN payment_idem.replays.replay_id IS 'Key.';
COMMENT ON COLUMN payment_idem.replays.tenant IS 'The tenant.';
COMMENT ON COLUMN payment_idem.replays.source IS 'The source.';
COMMENT ON COLUMN payment_idem.replays.payload_sha256 IS 'SHA-256 of the event''s bytes.';
COMMENT ON COLUMN payment_idem.replays.outcome IS 'As replay answered it.';
COMMENT ON COLUMN payment_idem.replays.reason IS 'As replay answered it.';
COMMENT ON COLUMN payment_idem.replays.why IS 'What the operator wrote.';
COMMENT ON COLUMN payment_idem.replays.replayed_by IS 'The role that called.';
COMMENT ON COLUMN payment_idem.replays.replayed_at IS 'When.';

CREATE TABLE payment_idem.anomalies (
    anomaly_id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant          uuid        NOT NULL,
    source          text        COLLATE "C" NOT NULL,
    kind            text        COLLATE "C" NOT NULL CHECK (kind IN (
        'digest_conflict', 'event_id_mismatch', 'unsigned_id_reused', 'too_old')),
    identity        text        COLLATE "C" NOT NULL,
    claimed_id      text        COLLATE "C",
    payload_sha256  bytea       NOT NULL CHECK (octet_length(payload_sha256) = 32),
    first_sha256    bytea       CHECK (octet_length(first_sha256) = 32),
    receipt         bigint,
    noticed_at      timestamptz NOT NULL,
    resolution      text        COLLATE "C",
    note            text,
    resolved_by     name,
    resolved_at     timestamptz,
    CONSTRAINT anomalies_once UNIQUE (tenant, source, kind, identity, payload_sha256),
    CHECK ((resolution IS NULL) = (resolved_at IS NULL))
);
COMMENT ON TABLE payment_idem.anomalies IS
    'Authentic deliveries that contradict themselves or an earlier one: a sender or a contract to investigate. Safe facts only.';
COMMENT ON COLUMN payment_idem.anomalies.anomaly_id IS 'Key.';
COMMENT ON COLUMN payment_idem.anomalies.tenant IS 'The tenant.';
COMMENT ON COLUMN payment_idem.anomalies.source IS 'The source.';
COMMENT ON COLUMN payment_idem.anomalies.kind IS
    'digest_conflict (same id, other bytes), event_id_mismatch (the argument is not the signed id), unsigned_id_reused, too_old.';
COMMENT ON COLUMN payment_idem.anomalies.identity IS 'The identity of the event, as in event_receipts.';
COMMENT ON COLUMN payment_idem.anomalies.claimed_id IS 'The event id that the caller gave, where it differs.';
COMMENT ON COLUMN payment_idem.anomalies.payload_sha256 IS 'SHA-256 of the bytes that were noticed.';
COMMENT ON COLUMN payment_idem.anomalies.first_sha256 IS 'SHA-256 of the bytes that came first.';
COMMENT ON COLUMN payment_idem.anomalies.receipt IS 'The number of the event that came first.';
COMMENT ON COLUMN payment_idem.anomalies.noticed_at IS 'When it was noticed first; repeats add nothing.';
COMMENT ON COLUMN payment_idem.anomalies.resolution IS 'How it was resolved; NULL while open.';
COMMENT ON COLUMN payment_idem.anomalies.note IS 'What the person who resolved it wrote.';
COMMENT ON COLUMN payment_idem.anomalies.resolved_by IS 'Who resolved it.';
COMMENT ON COLUMN payment_idem.anomalies.resolved_at IS 'When it was resolved; NULL while open.';
