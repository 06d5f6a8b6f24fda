//! `payment_idem.exceptions`: what a person has to look at. Raised with the receipt: see `effects`.

use pgrx::Uuid;

use crate::pg::moment::Moment;
use crate::pg::statement::{run, statement};

statement!(
    ON_RECORD,
    "SELECT 1 FROM payment_idem.exceptions \
     WHERE tenant = $1 AND order_id = $2 AND reference_kind = $3 AND reference_value = $4 LIMIT 1",
    [UUIDOID, UUIDOID, TEXTOID, TEXTOID]
);
statement!(
    SUPERSEDE,
    "UPDATE payment_idem.exceptions \
     SET resolution = 'superseded', note = 'A later event of the same payment was applied.', \
         resolved_by = 'payment_idem', resolved_at = $5 \
     WHERE tenant = $1 AND order_id = $2 AND reference_kind = $3 AND reference_value = $4 AND resolved_at IS NULL",
    [UUIDOID, UUIDOID, TEXTOID, TEXTOID, TIMESTAMPTZOID]
);

/// Whether an exception about this payment and this order was raised before.
pub fn on_record(tenant: Uuid, order_id: Uuid, reference_kind: &str, reference_value: &str) -> bool {
    !run!(ON_RECORD, tenant, order_id, reference_kind, reference_value).is_empty()
}

/// Closes the open exceptions about a payment that is booked after all.
pub fn supersede(tenant: Uuid, order_id: Uuid, reference_kind: &str, reference_value: &str, now: Moment) {
    run!(SUPERSEDE, tenant, order_id, reference_kind, reference_value, now);
}
