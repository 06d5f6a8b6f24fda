//! `payment_idem.payment_references`: which order a payment belongs to.

use pgrx::Uuid;

use crate::domain::decision::{ReferenceState, Taken};
use crate::pg::error::write_prevented;
use crate::pg::statement::{RowOf, arg, row_statement};

/// A payment reference. Ordered as they are locked everywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The tenant, or the nil uuid for the whole database.
    pub scope: [u8; 16],
    /// The gateway; empty for a bank's reference, which is the same at every gateway.
    pub gateway: String,
    /// The kind.
    pub kind: String,
    /// The reference itself.
    pub value: String,
}

/// Who has a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The order, and whether the money is booked.
    pub taken: Taken,
    /// The number of the event that brought it there.
    pub receipt: i64,
}

row_statement!(
    FIND,
    "SELECT r.scope, r.gateway, r.kind, r.value, r.order_id, r.state::text, r.receipt \
     FROM {rows} JOIN payment_idem.payment_references r \
       ON r.scope = n.scope AND r.gateway = n.gateway AND r.kind = n.kind AND r.value = n.value",
    [(scope, UUIDOID), (gateway, TEXTOID), (kind, TEXTOID), (value, TEXTOID)]
);
row_statement!(
    CLAIM,
    "INSERT INTO payment_idem.payment_references (scope, gateway, kind, value, tenant, order_id, receipt, state) \
     SELECT scope, gateway, kind, value, tenant, order_id, receipt, state FROM {rows} \
     ON CONFLICT (scope, gateway, kind, value) DO NOTHING",
    [
        (scope, UUIDOID),
        (gateway, TEXTOID),
        (kind, TEXTOID),
        (value, TEXTOID),
        (tenant, UUIDOID),
        (order_id, UUIDOID),
        (receipt, INT8OID),
        (state, TEXTOID)
    ]
);
row_statement!(
    MOVE_ON,
    "UPDATE payment_idem.payment_references r SET state = n.state, receipt = n.receipt \
     FROM {rows} \
     WHERE r.scope = n.scope AND r.gateway = n.gateway AND r.kind = n.kind AND r.value = n.value \
       AND r.tenant = n.tenant AND r.order_id = n.order_id AND r.state = 'held'",
    [
        (scope, UUIDOID),
        (gateway, TEXTOID),
        (kind, TEXTOID),
        (value, TEXTOID),
        (tenant, UUIDOID),
        (order_id, UUIDOID),
        (receipt, INT8OID),
        (state, TEXTOID)
    ]
);
row_statement!(
    TAKE_BACK,
    "DELETE FROM payment_idem.payment_references r USING {rows} \
     WHERE r.scope = n.scope AND r.gateway = n.gateway AND r.kind = n.kind AND r.value = n.value \
       AND r.receipt = n.receipt",
    [(scope, UUIDOID), (gateway, TEXTOID), (kind, TEXTOID), (value, TEXTOID), (receipt, INT8OID)]
);

/// Those of the references that belong to an order already.
pub fn find<'a>(keys: impl Iterator<Item = &'a Key>) -> Vec<(Key, Claim)> {
    let rows: Vec<RowOf<4>> = keys.map(Key::columns).collect();
    FIND.with(|statement| statement.run(&rows))
        .iter()
        .map(|row| {
            let key = Key {
                scope: *row.value::<Uuid>(1).as_bytes(),
                gateway: row.value(2),
                kind: row.value(3),
                value: row.value(4),
            };
            let state = match row.value::<String>(6).as_str() {
                "applied" => ReferenceState::Applied,
                "held" => ReferenceState::Held,
                _ => ReferenceState::Contested,
            };
            let taken = Taken { order_id: *row.value::<Uuid>(5).as_bytes(), state };
            (key, Claim { taken, receipt: row.value(7) })
        })
        .collect()
}

/// Claims new references, in order of their keys. `false` where another transaction was first with
/// one; none of them is ours then.
pub fn claim(tenant: Uuid, claims: &[(&Key, &Claim)]) -> bool {
    let rows = rows(tenant, claims);
    let all = CLAIM.with(|statement| statement.run(&rows)).len() == rows.len();
    if !all {
        take_back(claims);
    }
    all
}

/// Takes back what this call has claimed, to decide again.
fn take_back(claims: &[(&Key, &Claim)]) {
    let rows: Vec<RowOf<5>> = claims
        .iter()
        .map(|(key, claim)| {
            let [scope, gateway, kind, value] = key.columns();
            [scope, gateway, kind, value, arg(claim.receipt)]
        })
        .collect();
    TAKE_BACK.with(|statement| statement.run(&rows));
}

/// Writes what became of references that were held for an order which this transaction has locked.
pub fn move_on(tenant: Uuid, claims: &[(&Key, &Claim)]) {
    let rows = rows(tenant, claims);
    if MOVE_ON.with(|statement| statement.run(&rows)).len() < rows.len() {
        write_prevented("a payment reference");
    }
}

fn rows(tenant: Uuid, claims: &[(&Key, &Claim)]) -> Vec<RowOf<8>> {
    claims
        .iter()
        .map(|(key, claim)| {
            let [scope, gateway, kind, value] = key.columns();
            let state = match claim.taken.state {
                ReferenceState::Applied => "applied",
                ReferenceState::Held => "held",
                ReferenceState::Contested => "contested",
            };
            let order_id = arg(Uuid::from_bytes(claim.taken.order_id));
            [scope, gateway, kind, value, arg(tenant), order_id, arg(claim.receipt), arg(state)]
        })
        .collect()
}

impl Key {
    /// Before every other key.
    pub const FIRST: Key =
        Key { scope: [0; 16], gateway: String::new(), kind: String::new(), value: String::new() };

    /// Its columns, in this order.
    pub fn columns(&self) -> RowOf<4> {
        [
            arg(Uuid::from_bytes(self.scope)),
            arg(self.gateway.as_str()),
            arg(self.kind.as_str()),
            arg(self.value.as_str()),
        ]
    }
}
