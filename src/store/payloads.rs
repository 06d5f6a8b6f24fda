//! `payment_idem.payloads`: personal data that `create_order` is told. Bodies are written by `effects`.

use pgrx::Uuid;

use crate::pg::moment::Moment;
use crate::pg::statement::{run, statement};

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

/// The customer's mobile, where it was told and not redacted since.
pub fn customer_mobile(tenant: Uuid, order_id: Uuid) -> Option<String> {
    run!(MOBILE, tenant, order_id).first().map(|row| row.value(1))
}

/// Keeps the customer's mobile.
pub fn keep_customer_mobile(tenant: Uuid, order_id: Uuid, mobile: &str, now: Moment) {
    run!(KEEP_MOBILE, tenant, order_id, now, mobile);
}
