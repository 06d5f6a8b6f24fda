//! `payment_idem.gateways`: the definitions.

use crate::pg::statement::{run, statement};

// covers_body: the domain refuses a definition whose signed text leaves the body out. Unchanged text is no change: nothing is invalidated, and the version stays.
statement!(
    DEFINE,
    "INSERT INTO payment_idem.gateways AS g (gateway, definition, covers_body) VALUES ($1, $2::jsonb, true) \
     ON CONFLICT (gateway) DO UPDATE \
     SET definition = excluded.definition, covers_body = excluded.covers_body, version = g.version + 1, \
         built_in = false, changed_at = clock_timestamp() \
     WHERE g.definition <> excluded.definition",
    [TEXTOID, TEXTOID]
);
statement!(EXISTS, "SELECT 1 FROM payment_idem.gateways WHERE gateway = $1", [TEXTOID]);

/// Adds or replaces a definition that is known to compile.
pub fn define(gateway: &str, definition: &str) {
    run!(DEFINE, gateway, definition);
}

/// Whether there is such a gateway.
pub fn exists(gateway: &str) -> bool {
    !run!(EXISTS, gateway).is_empty()
}
