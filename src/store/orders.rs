//! `payment_idem.orders`: found by reference or key, and locked.

use std::str::FromStr;

use pgrx::Uuid;

use crate::domain::order::{Order, Status};
use crate::pg::error::write_prevented;
use crate::pg::moment::Moment;
use crate::pg::statement::{Row, RowOf, arg, row_statement, run, statement};

/// The columns of an [`Order`], in the order in which [`read`] expects them, then two facts of `create_order`.
macro_rules! select_order {
    ($rest:literal) => {
        concat!(
            "SELECT order_id, merchant_id, client_txn_id, amount_minor, currency, status::text, paid_minor, \
                    ledger_seq, ledger_head, outbox_seq, gateway_order_id, expires_at \
             FROM payment_idem.orders ",
            $rest
        )
    };
}

// The lock that a payment needs and no more: it lets child rows refer to the order meanwhile.
statement!(
    LOCK_BY_REFERENCE,
    select_order!("WHERE tenant = $1 AND client_txn_id = $2 AND merchant_id = $3 FOR NO KEY UPDATE"),
    [UUIDOID, TEXTOID, TEXTOID]
);
statement!(
    LOCK_BY_KEY,
    select_order!("WHERE tenant = $1 AND order_id = $2 FOR NO KEY UPDATE"),
    [UUIDOID, UUIDOID]
);
statement!(
    FIND_BY_REFERENCE,
    select_order!("WHERE tenant = $1 AND client_txn_id = $2 AND merchant_id = $3"),
    [UUIDOID, TEXTOID, TEXTOID]
);
statement!(FIND_BY_KEY, select_order!("WHERE tenant = $1 AND order_id = $2"), [UUIDOID, UUIDOID]);
// In the order of the keys, which is the order in which any call locks several.
statement!(
    LOCK_ALL,
    select_order!("WHERE tenant = $1 AND order_id = ANY ($2) ORDER BY order_id FOR NO KEY UPDATE"),
    [UUIDOID, UUIDARRAYOID]
);
row_statement!(
    MOVE,
    "UPDATE payment_idem.orders o \
     SET status = n.status::payment_idem.order_status, paid_minor = n.paid_minor, version = o.version + 1, \
         ledger_seq = n.ledger_seq, ledger_head = n.ledger_head, outbox_seq = n.outbox_seq, updated_at = n.updated_at \
     FROM {rows} WHERE o.tenant = n.tenant AND o.order_id = n.order_id",
    [
        (tenant, UUIDOID),
        (order_id, UUIDOID),
        (status, TEXTOID),
        (paid_minor, INT8OID),
        (ledger_seq, INT8OID),
        (ledger_head, BYTEAOID),
        (outbox_seq, INT8OID),
        (updated_at, TIMESTAMPTZOID)
    ]
);
statement!(
    STATUS,
    "SELECT status::text FROM payment_idem.orders WHERE tenant = $1 AND order_id = $2",
    [UUIDOID, UUIDOID]
);
// Two are enough to know that a reference without a merchant is ambiguous.
statement!(
    KEYS_OF_REFERENCE,
    "SELECT order_id FROM payment_idem.orders WHERE tenant = $1 AND client_txn_id = $2 LIMIT 2",
    [UUIDOID, TEXTOID]
);
statement!(
    INSERT,
    "INSERT INTO payment_idem.orders (tenant, order_id, merchant_id, client_txn_id, amount_minor, currency, \
                                      gateway_order_id, expires_at, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) RETURNING 1",
    [UUIDOID, UUIDOID, TEXTOID, TEXTOID, INT8OID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID]
);
statement!(
    FILL_IN,
    "UPDATE payment_idem.orders \
     SET gateway_order_id = coalesce(gateway_order_id, $3), expires_at = coalesce(expires_at, $4), \
         version = version + 1, updated_at = $5 \
     WHERE tenant = $1 AND order_id = $2 RETURNING 1",
    [UUIDOID, UUIDOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID]
);

/// An order, with the facts that only `create_order` looks at.
pub struct Stored {
    /// The order.
    pub order: Order,
    /// When it expires unpaid.
    pub expires_at: Option<Moment>,
}

/// The facts of a new order.
pub struct NewOrder<'a> {
    /// Our key, made by the caller.
    pub order_id: Uuid,
    /// The merchant within the tenant.
    pub merchant_id: &'a str,
    /// The merchant's own reference.
    pub client_txn_id: &'a str,
    /// In minor units of `currency`.
    pub amount_minor: i64,
    /// ISO 4217 code, upper case.
    pub currency: &'a str,
    /// The gateway's id of the order.
    pub gateway_order_id: Option<&'a str>,
    /// When it expires unpaid.
    pub expires_at: Option<Moment>,
}

/// Locks the order that a merchant calls so, and reads it.
pub fn lock_by_reference(tenant: Uuid, client_txn_id: &str, merchant_id: &str) -> Option<Order> {
    run!(LOCK_BY_REFERENCE, tenant, client_txn_id, merchant_id).first().map(|row| read(&row).order)
}

/// Locks the order with this key, and reads it.
pub fn lock(tenant: Uuid, order_id: Uuid) -> Option<Stored> {
    run!(LOCK_BY_KEY, tenant, order_id).first().map(|row| read(&row))
}

/// Locks the orders with these keys, in the order of the keys, and reads them.
pub fn lock_all(tenant: Uuid, order_ids: Vec<Uuid>) -> Vec<Order> {
    run!(LOCK_ALL, tenant, order_ids).iter().map(|row| read(&row).order).collect()
}

/// Reads the order with this key, without a lock.
pub fn find_by_key(tenant: Uuid, order_id: Uuid) -> Option<Order> {
    run!(FIND_BY_KEY, tenant, order_id).first().map(|row| read(&row).order)
}

/// Writes the new states of orders that this transaction has locked.
pub fn move_on<'a>(tenant: Uuid, orders: impl Iterator<Item = &'a Order>, now: Moment) {
    let rows: Vec<RowOf<8>> = orders
        .map(|order| {
            [
                arg(tenant),
                arg(Uuid::from_bytes(order.order_id)),
                arg(order.status.as_str()),
                arg(order.paid_minor),
                arg(order.ledger_seq),
                arg(order.ledger_head.as_ref().map(<[u8; 32]>::as_slice)),
                arg(order.outbox_seq),
                arg(now),
            ]
        })
        .collect();
    if MOVE.with(|statement| statement.run(&rows)).len() < rows.len() {
        write_prevented("an order");
    }
}

/// Reads the order that a merchant calls so, without a lock.
pub fn find(tenant: Uuid, client_txn_id: &str, merchant_id: &str) -> Option<Stored> {
    run!(FIND_BY_REFERENCE, tenant, client_txn_id, merchant_id).first().map(|row| read(&row))
}

/// The order's status, without a lock.
pub fn status(tenant: Uuid, order_id: Uuid) -> Option<Status> {
    run!(STATUS, tenant, order_id).first().map(|row| parse_status(&row.value::<String>(1)))
}

/// The keys of the orders that any merchant calls so: none, one, or two where there are more.
pub fn keys_of_reference(tenant: Uuid, client_txn_id: &str) -> Vec<Uuid> {
    run!(KEYS_OF_REFERENCE, tenant, client_txn_id).iter().map(|row| row.value(1)).collect()
}

/// Inserts a new order; raises 23505 where the reference is taken.
pub fn insert(tenant: Uuid, order: &NewOrder<'_>, now: Moment) {
    let rows = run!(
        INSERT,
        tenant,
        order.order_id,
        order.merchant_id,
        order.client_txn_id,
        order.amount_minor,
        order.currency,
        order.gateway_order_id,
        order.expires_at,
        now
    );
    if rows.is_empty() {
        write_prevented("an order");
    }
}

/// Sets those facts that are not set yet; to be called under the order's lock.
pub fn fill_in(
    tenant: Uuid,
    order_id: Uuid,
    gateway_order_id: Option<&str>,
    expires_at: Option<Moment>,
    now: Moment,
) {
    if run!(FILL_IN, tenant, order_id, gateway_order_id, expires_at, now).is_empty() {
        write_prevented("an order");
    }
}

fn read(row: &Row<'_>) -> Stored {
    let status: String = row.value(6);
    let head: Option<Vec<u8>> = row.get(9);
    Stored {
        order: Order {
            order_id: *row.value::<Uuid>(1).as_bytes(),
            merchant_id: row.value(2),
            client_txn_id: row.value(3),
            amount_minor: row.value(4),
            currency: row.value(5),
            status: parse_status(&status),
            paid_minor: row.value(7),
            ledger_seq: row.value(8),
            ledger_head: head.map(|hash| hash.try_into().expect("a hash of 32 bytes")),
            outbox_seq: row.value(10),
            gateway_order_id: row.get(11),
        },
        expires_at: row.get(12),
    }
}

fn parse_status(label: &str) -> Status {
    Status::from_str(label).expect("a label of order_status")
}
