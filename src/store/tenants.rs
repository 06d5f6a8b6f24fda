//! `payment_idem.tenants`.

use pgrx::Uuid;

use crate::pg::statement::{run, run_latest, statement};

statement!(NAME, "SELECT name FROM payment_idem.tenants WHERE tenant = $1", [UUIDOID]);
statement!(
    INSERT,
    "INSERT INTO payment_idem.tenants (tenant, name) VALUES ($1, $2) ON CONFLICT (tenant) DO NOTHING RETURNING 1",
    [UUIDOID, TEXTOID]
);
// Only where there are none: to move the open-ended partition is maintain()'s, which keeps its locks short.
statement!(
    MAKE_FIRST_PARTITIONS,
    "SELECT payment_idem.ensure_partitions() \
     WHERE payment_idem.open_partition_start('transactions') IS NULL \
        OR payment_idem.open_partition_start('payloads') IS NULL",
    []
);

/// The tenant's name; `None` where there is no such tenant.
pub fn name(tenant: Uuid) -> Option<String> {
    run_latest!(NAME, tenant).first().map(|row| row.value(1))
}

/// Makes the tenant; `false` where it exists.
pub fn insert(tenant: Uuid, name: &str) -> bool {
    !run!(INSERT, tenant, name).is_empty()
}

/// Makes the first partitions of the ledger and the payloads, which cover all of time.
pub fn make_first_partitions() {
    run!(MAKE_FIRST_PARTITIONS);
}
