//! `payment_idem.transition_rules`: the allowed moves.

use std::str::FromStr;

use pgrx::Uuid;

use crate::domain::kind::Kind;
use crate::domain::order::{Rules, Status};
use crate::pg::statement::{run_latest, statement};

statement!(
    OF_TENANT,
    "SELECT kind, from_status::text, to_status::text FROM payment_idem.transition_rules WHERE tenant = $1 \
     UNION ALL \
     SELECT kind, from_status::text, to_status::text FROM payment_idem.transition_rules \
     WHERE tenant = '00000000-0000-0000-0000-000000000000' \
       AND NOT EXISTS (SELECT FROM payment_idem.transition_rules WHERE tenant = $1)",
    [UUIDOID]
);

/// The tenant's own rules, or the default set. Rows whose kind this library does not know do nothing.
pub fn of_tenant(tenant: Uuid) -> Rules {
    Rules::new(run_latest!(OF_TENANT, tenant).iter().filter_map(|row| {
        let (kind, from, to): (String, String, String) = (row.value(1), row.value(2), row.value(3));
        Some((Kind::from_str(&kind).ok()?, Status::from_str(&from).ok()?, Status::from_str(&to).ok()?))
    }))
}
