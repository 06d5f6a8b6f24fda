//! `payment_idem.role_grants`: which role may act for which tenant.

use pgrx::{Uuid, pg_sys};

use crate::pg::statement::{run_latest, statement};

statement!(
    GRANTED,
    "SELECT 1 FROM payment_idem.role_grants g JOIN pg_catalog.pg_roles r ON r.rolname = g.role_name \
     WHERE g.profile = $2 AND (g.tenant = $3 OR g.tenant IS NULL) AND pg_catalog.pg_has_role($1, r.oid, 'USAGE') \
     LIMIT 1",
    [OIDOID, TEXTOID, UUIDOID]
);

statement!(
    TENANTS,
    "SELECT g.tenant FROM payment_idem.role_grants g JOIN pg_catalog.pg_roles r ON r.rolname = g.role_name \
     WHERE g.profile = $2 AND pg_catalog.pg_has_role($1, r.oid, 'USAGE')",
    [OIDOID, TEXTOID]
);

/// The tenants that the role may act for in this profile; `None`: every tenant.
pub fn granted_tenants(role: pg_sys::Oid, profile: &str) -> Option<Vec<Uuid>> {
    run_latest!(TENANTS, role, profile).iter().map(|row| row.get(1)).collect()
}

/// Whether a grant lets the role act for the tenant in this profile; for every tenant where `None`.
pub fn is_granted(role: pg_sys::Oid, profile: &str, tenant: Option<Uuid>) -> bool {
    !run_latest!(GRANTED, role, profile, tenant).is_empty()
}
