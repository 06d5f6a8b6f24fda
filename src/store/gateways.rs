//! `payment_idem.gateways`: the definitions.

use crate::pg::statement::{run, statement};

// Unchanged text is no change: nothing is invalidated, and the version stays.
statement!(
    DEFINE,
    "INSERT INTO payment_idem.gateways AS g (gateway, definition, covers_body, remarks) VALUES ($1, $2::jsonb, $3, $4) \
     ON CONFLICT (gateway) DO UPDATE \
     SET definition = excluded.definition, covers_body = excluded.covers_body, remarks = excluded.remarks, version = g.version + 1, \
         built_in = false, changed_at = clock_timestamp() \
     WHERE g.definition <> excluded.definition",
    [TEXTOID, TEXTOID, BOOLOID, TEXTARRAYOID]
);
statement!(EXISTS, "SELECT 1 FROM payment_idem.gateways WHERE gateway = $1", [TEXTOID]);

/// Adds or replaces a definition that is known to compile, with what its signature covers.
pub fn define(gateway: &str, definition: &str, covers_body: bool, remarks: &[String]) {
    run!(DEFINE, gateway, definition, covers_body, remarks.to_vec());
}

/// Whether there is such a gateway.
pub fn exists(gateway: &str) -> bool {
    !run!(EXISTS, gateway).is_empty()
}
