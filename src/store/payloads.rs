//! `payment_idem.payloads`: the evidence of events, and personal data that `create_order` is told.

use pgrx::Uuid;

use crate::pg::moment::Moment;
use crate::pg::statement::{RowOf, arg, row_statement, run, statement};

statement!(
    MOBILE,
    "SELECT customer_mobile FROM payment_idem.payloads \
     WHERE tenant = $1 AND order_id = $2 AND customer_mobile IS NOT NULL LIMIT 1",
    [UUIDOID, UUIDOID]
);
statement!(
    KEEP_MOBILE,
    "INSERT INTO payment_idem.payloads (tenant, order_id, received_at, customer_mobile) VALUES ($1, $2, $3, $4)",
    [UUIDOID, UUIDOID, TIMESTAMPTZOID, TEXTOID]
);
row_statement!(
    KEEP,
    "INSERT INTO payment_idem.payloads (tenant, receipt, order_id, received_at, raw_payload, payer_vpa) \
     SELECT tenant, receipt, order_id, received_at, raw_payload, payer_vpa FROM {rows}",
    [
        (tenant, UUIDOID),
        (receipt, INT8OID),
        (order_id, UUIDOID),
        (received_at, TIMESTAMPTZOID),
        (raw_payload, BYTEAOID),
        (payer_vpa, TEXTOID)
    ]
);

/// The row of an event's evidence: its exact bytes, and who paid.
pub fn row(
    tenant: Uuid,
    receipt: i64,
    order_id: Option<Uuid>,
    received_at: Moment,
    raw_payload: &[u8],
    payer: Option<&str>,
) -> RowOf<6> {
    [arg(tenant), arg(receipt), arg(order_id), arg(received_at), arg(raw_payload), arg(payer)]
}

/// Keeps evidence. A trigger of the user's own may drop it: no effect depends on it.
pub fn keep(rows: &[RowOf<6>]) {
    KEEP.with(|statement| statement.run(rows));
}

/// The customer's mobile, where it was told and not redacted since.
pub fn customer_mobile(tenant: Uuid, order_id: Uuid) -> Option<String> {
    run!(MOBILE, tenant, order_id).first().map(|row| row.value(1))
}

/// Keeps the customer's mobile.
pub fn keep_customer_mobile(tenant: Uuid, order_id: Uuid, mobile: &str, now: Moment) {
    run!(KEEP_MOBILE, tenant, order_id, now, mobile);
}
