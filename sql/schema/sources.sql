-- Where a tenant's events come from, and the secrets that prove it.

CREATE TABLE payment_idem.sources (
    tenant            uuid        NOT NULL REFERENCES payment_idem.tenants,
    source            text        COLLATE "C" NOT NULL CHECK (source <> '' AND octet_length(source) <= 255),
    gateway           text        COLLATE "C" NOT NULL REFERENCES payment_idem.gateways,
    merchant_id       text        COLLATE "C" CHECK (merchant_id <> ''),
    live_mode         boolean     NOT NULL DEFAULT true,
    id_signed         boolean,
    max_payload_bytes integer     NOT NULL DEFAULT 1048576 CHECK (max_payload_bytes BETWEEN 1 AND 67108864),
    keep_payload      boolean     NOT NULL DEFAULT true,
    tolerance_s       integer     CHECK (tolerance_s BETWEEN 1 AND 604800),
    http_status       jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(http_status) = 'object'),
    parameters        jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(parameters) = 'object'),
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, source)
);
COMMENT ON TABLE payment_idem.sources IS
    'One webhook endpoint of a tenant: its gateway, its merchant and how it is treated. Event ids are unique per source.';
COMMENT ON COLUMN payment_idem.sources.tenant IS 'The tenant that the endpoint belongs to.';
COMMENT ON COLUMN payment_idem.sources.source IS 'Name of the endpoint within the tenant.';
COMMENT ON COLUMN payment_idem.sources.gateway IS 'Whose definition verifies and reads its deliveries.';
COMMENT ON COLUMN payment_idem.sources.merchant_id IS
    'The merchant whose orders it pays; NULL: any merchant of the tenant, if the order reference names one order only.';
COMMENT ON COLUMN payment_idem.sources.live_mode IS
    'Whether it carries real money; an event that says otherwise is recorded as test_mode and moves nothing.';
COMMENT ON COLUMN payment_idem.sources.id_signed IS
    'Whether the event id is under the signature; NULL: as the definition says.';
COMMENT ON COLUMN payment_idem.sources.max_payload_bytes IS 'A longer body is rejected as too_large.';
COMMENT ON COLUMN payment_idem.sources.keep_payload IS 'Whether the raw bytes and the payer''s handle are kept in payloads as evidence.';
COMMENT ON COLUMN payment_idem.sources.tolerance_s IS
    'Seconds that a signed timestamp may lie in the past or future; NULL: as the definition says.';
COMMENT ON COLUMN payment_idem.sources.http_status IS
    'Overrides of the status to answer, by outcome or outcome/reason: {"duplicate": 208, "rejected/signature_mismatch": 400}.';
COMMENT ON COLUMN payment_idem.sources.parameters IS
    'What the gateway signs or names beside the request, by name: {"notification_url": "https://shop.example/hook"}.';
COMMENT ON COLUMN payment_idem.sources.created_at IS 'When the source was made.';

CREATE TABLE payment_idem.signing_secrets (
    secret_id   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      uuid        NOT NULL,
    source      text        COLLATE "C" NOT NULL,
    kind        text        COLLATE "C" NOT NULL DEFAULT 'shared' CHECK (kind IN ('shared', 'public_key')),
    secret      text        COLLATE "C" NOT NULL CHECK (octet_length(secret) >= 6 AND btrim(secret) <> ''),
    valid_from  timestamptz NOT NULL DEFAULT clock_timestamp(),
    valid_until timestamptz,
    FOREIGN KEY (tenant, source) REFERENCES payment_idem.sources
);
CREATE INDEX signing_secrets_of_source ON payment_idem.signing_secrets (tenant, source);
ALTER TABLE payment_idem.signing_secrets ALTER COLUMN secret SET STATISTICS 0; -- statistics print what they sample
COMMENT ON TABLE payment_idem.signing_secrets IS
    'Secrets that verify a source''s deliveries; several may be valid at once, so that rotation loses nothing. Read by the extension''s functions only.';
COMMENT ON COLUMN payment_idem.signing_secrets.secret_id IS 'Key, as add_secret returned it.';
COMMENT ON COLUMN payment_idem.signing_secrets.tenant IS 'The source''s tenant.';
COMMENT ON COLUMN payment_idem.signing_secrets.source IS 'The source that it verifies.';
COMMENT ON COLUMN payment_idem.signing_secrets.kind IS 'shared: whoever has it can sign; public_key: it verifies only.';
COMMENT ON COLUMN payment_idem.signing_secrets.secret IS 'The secret as the gateway''s dashboard shows it. Never logged or returned.';
COMMENT ON COLUMN payment_idem.signing_secrets.valid_from IS 'Valid from this moment.';
COMMENT ON COLUMN payment_idem.signing_secrets.valid_until IS 'Not valid at or after this moment; NULL: until retired.';
