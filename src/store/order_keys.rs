//! `payment_idem.order_keys`: where an event without an order and the order it waits for meet.

use pgrx::Uuid;

use crate::pg::error::write_prevented;
use crate::pg::statement::{run, statement};

/// What kind of reference a key row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    /// The merchant's reference.
    ClientTxn,
    /// The gateway's order id.
    GatewayOrder,
}

impl KeyKind {
    const fn as_str(self) -> &'static str {
        match self {
            KeyKind::ClientTxn => "client_txn",
            KeyKind::GatewayOrder => "gateway_order",
        }
    }
}

// Written, not only locked: at REPEATABLE READ the later of two sides then fails with 40001, where
// a mere lock would let it go on with a snapshot that cannot see the other.
statement!(
    MEET,
    "INSERT INTO payment_idem.order_keys AS k (tenant, kind, value, order_id) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (tenant, kind, value) \
     DO UPDATE SET touched = k.touched + 1, order_id = coalesce(k.order_id, excluded.order_id) \
     RETURNING order_id",
    [UUIDOID, TEXTOID, TEXTOID, UUIDOID]
);
statement!(
    OWNER,
    "SELECT order_id FROM payment_idem.order_keys WHERE tenant = $1 AND kind = 'gateway_order' AND value = $2",
    [UUIDOID, TEXTOID]
);

/// Writes the key's row, after whoever else is writing it has ended. Call in the order of [`KeyKind`].
///
/// With an `owner`, claims an unowned gateway order id for that order. Returns who owns it now.
pub fn meet(tenant: Uuid, kind: KeyKind, value: &str, owner: Option<Uuid>) -> Option<Uuid> {
    match run!(MEET, tenant, kind.as_str(), value, owner).first() {
        Some(row) => row.get(1),
        None => write_prevented("an order key"),
    }
}

/// The order that owns a gateway's order id.
pub fn owner(tenant: Uuid, gateway_order_id: &str) -> Option<Uuid> {
    run!(OWNER, tenant, gateway_order_id).first().and_then(|row| row.get(1))
}
