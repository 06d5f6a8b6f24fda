//! `payment_idem.payment_references`: which order a payment belongs to.

use pgrx::Uuid;

use crate::domain::decision::{ReferenceState, Taken};
use crate::pg::statement::{run, statement};

/// The keys of some references, in the order in which they are locked everywhere, as four columns.
#[derive(Debug, Default)]
pub struct Keys {
    /// The tenant, or the nil uuid for the whole database.
    pub scopes: Vec<Uuid>,
    /// The gateway; empty for a bank's reference.
    pub gateways: Vec<String>,
    /// The kinds.
    pub kinds: Vec<String>,
    /// The references themselves.
    pub values: Vec<String>,
}

impl Keys {
    /// Columns from keys (scope, gateway, kind, value), sorted.
    pub fn new(mut keys: Vec<(Uuid, String, String, String)>) -> Self {
        keys.sort_by(|a, b| (a.0.as_bytes(), &a.1, &a.2, &a.3).cmp(&(b.0.as_bytes(), &b.1, &b.2, &b.3)));
        let mut columns = Keys::default();
        for (scope, gateway, kind, value) in keys {
            columns.scopes.push(scope);
            columns.gateways.push(gateway);
            columns.kinds.push(kind);
            columns.values.push(value);
        }
        columns
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.scopes.len()
    }
}

statement!(
    TAKEN,
    "SELECT r.order_id, r.state = 'applied', r.receipt \
     FROM unnest($1, $2, $3, $4) AS e (scope, gateway, kind, value) \
     JOIN payment_idem.payment_references r USING (scope, gateway, kind, value)",
    [UUIDARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID]
);

/// Those of the references that belong to an order already, each with the event that brought it.
pub fn taken(keys: &Keys) -> Vec<(Taken, i64)> {
    if keys.len() == 0 {
        return Vec::new();
    }
    run!(TAKEN, keys.scopes.clone(), keys.gateways.clone(), keys.kinds.clone(), keys.values.clone())
        .iter()
        .map(|row| {
            let state = if row.value(2) { ReferenceState::Applied } else { ReferenceState::Held };
            (Taken { order_id: *row.value::<Uuid>(1).as_bytes(), state }, row.value(3))
        })
        .collect()
}
