//! `payment_idem.gateways`: the definitions.

use pgrx::PgSqlErrorCode;

use crate::domain::gateway::Gateway;
use crate::pg::error::raise;
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
statement!(FIND, "SELECT definition::text FROM payment_idem.gateways WHERE gateway = $1", [TEXTOID]);

/// Adds or replaces a definition that is known to compile, with what its signature covers.
pub fn define(gateway: &str, definition: &str, covers_body: bool, remarks: &[String]) {
    run!(DEFINE, gateway, definition, covers_body, remarks.to_vec());
}

/// The gateway of this name, if there is one.
pub fn load(gateway: &str) -> Option<Gateway> {
    let rows = run!(FIND, gateway);
    let definition: String = rows.first()?.value(1);
    Some(compile(gateway, &definition))
}

/// Compiles a definition that is stored under the name `gateway`; raises where it cannot be used any longer.
pub fn compile(gateway: &str, definition: &str) -> Gateway {
    Gateway::from_json(definition).unwrap_or_else(|fault| {
        raise(
            PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
            format!("the definition of gateway \"{gateway}\" cannot be used"),
            fault.to_string(),
            "Correct it with payment_idem.define_gateway().",
        )
    })
}
