-- Gateways as data: how a delivery is authenticated and read.

CREATE TABLE payment_idem.gateways (
    gateway     text        COLLATE "C" NOT NULL PRIMARY KEY,
    definition  jsonb       NOT NULL,
    version     integer     NOT NULL DEFAULT 1 CHECK (version > 0),
    covers_body boolean     NOT NULL,
    remarks     text[]      NOT NULL DEFAULT '{}',
    built_in    boolean     NOT NULL DEFAULT false,
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE payment_idem.gateways IS
    'One definition per payment gateway: how its deliveries are authenticated and how its events are read.';
COMMENT ON COLUMN payment_idem.gateways.gateway IS 'Name of the gateway, as sources refer to it.';
COMMENT ON COLUMN payment_idem.gateways.definition IS 'The definition, one JSON document.';
COMMENT ON COLUMN payment_idem.gateways.version IS 'Counts the changes of the definition.';
COMMENT ON COLUMN payment_idem.gateways.covers_body IS
    'Whether a valid signature vouches for every byte of the body; false for token and Basic schemes, among others.';
COMMENT ON COLUMN payment_idem.gateways.remarks IS
    'What a valid signature does not vouch for, in sentences; empty where there is nothing to say.';
COMMENT ON COLUMN payment_idem.gateways.built_in IS 'Shipped with the extension, and not changed here.';
COMMENT ON COLUMN payment_idem.gateways.changed_at IS 'When the definition last changed.';
