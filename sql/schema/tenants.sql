-- Who owns the orders, and which roles may act for whom.

CREATE TABLE payment_idem.tenants (
    tenant               uuid        NOT NULL PRIMARY KEY,
    name                 text        COLLATE "C" NOT NULL CHECK (btrim(name) <> ''),
    bank_reference_scope text        COLLATE "C" NOT NULL DEFAULT 'tenant'
                                     CHECK (bank_reference_scope IN ('tenant', 'database')),
    late_payment         text        COLLATE "C" NOT NULL DEFAULT 'complete'
                                     CHECK (late_payment = 'complete'),
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The nil uuid is the owner of shipped defaults and of database-wide references.
    CHECK (tenant <> '00000000-0000-0000-0000-000000000000')
);
COMMENT ON TABLE payment_idem.tenants IS 'The parties whose orders and events are kept apart.';
COMMENT ON COLUMN payment_idem.tenants.tenant IS 'The tenant''s key; part of every other key.';
COMMENT ON COLUMN payment_idem.tenants.name IS 'A name for people.';
COMMENT ON COLUMN payment_idem.tenants.bank_reference_scope IS
    'Where a bank reference (UTR, RRN) must be unique: inside the tenant, or across the database where one owner runs it all.';
COMMENT ON COLUMN payment_idem.tenants.late_payment IS
    'What a payment does to an EXPIRED order: it completes it; no other policy yet.';
COMMENT ON COLUMN payment_idem.tenants.created_at IS 'When the tenant was made.';

CREATE TABLE payment_idem.role_grants (
    grant_id   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    role_name  name        NOT NULL,
    profile    text        COLLATE "C" NOT NULL
                           CHECK (profile IN ('ingest', 'worker', 'operator', 'auditor', 'admin')),
    tenant     uuid        REFERENCES payment_idem.tenants,
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    granted_by name        NOT NULL DEFAULT session_user
);
CREATE UNIQUE INDEX role_grants_once ON payment_idem.role_grants
    (role_name, profile, coalesce(tenant, '00000000-0000-0000-0000-000000000000'));
COMMENT ON TABLE payment_idem.role_grants IS
    'Which database role may act for which tenant, and as what. Superusers and the extension''s owner need no row.';
COMMENT ON COLUMN payment_idem.role_grants.grant_id IS 'Key of the grant.';
COMMENT ON COLUMN payment_idem.role_grants.role_name IS 'The database role; its members inherit the grant.';
COMMENT ON COLUMN payment_idem.role_grants.profile IS 'ingest, worker, operator, auditor or admin.';
COMMENT ON COLUMN payment_idem.role_grants.tenant IS 'The tenant; NULL means every tenant.';
COMMENT ON COLUMN payment_idem.role_grants.granted_at IS 'When the grant was made.';
COMMENT ON COLUMN payment_idem.role_grants.granted_by IS 'Who made the grant.';
