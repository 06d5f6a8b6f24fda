//! `payment_idem.tenants`.

use pgrx::Uuid;

use crate::pg::statement::{run, run_latest, statement};

statement!(NAME, "SELECT name FROM payment_idem.tenants WHERE tenant = $1", [UUIDOID]);
statement!(
    INSERT,
    "INSERT INTO payment_idem.tenants (tenant, name) VALUES ($1, $2) ON CONFLICT (tenant) DO NOTHING RETURNING 1",
    [UUIDOID, TEXTOID]
);
statement!(ENSURE_PARTITIONS, "SELECT payment_idem.ensure_partitions()", []);

/// The tenant's name; `None` where there is no such tenant.
pub fn name(tenant: Uuid) -> Option<String> {
    run_latest!(NAME, tenant).first().map(|row| row.value(1))
}

/// Makes the tenant; `false` where it exists.
pub fn insert(tenant: Uuid, name: &str) -> bool {
    !run!(INSERT, tenant, name).is_empty()
}

/// Makes the monthly partitions that a tenant's events will need.
pub fn ensure_partitions() {
    run!(ENSURE_PARTITIONS);
}
