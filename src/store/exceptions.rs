//! `payment_idem.exceptions`: what a person has to look at. Raised with the receipt: see `effects`.

use pgrx::Uuid;

use crate::domain::event::Reference;
use crate::pg::moment::Moment;
use crate::pg::statement::{run, statement};
use crate::store::event_receipts::references_to_json;

statement!(
    ON_RECORD,
    "SELECT 1 FROM payment_idem.exceptions x \
     JOIN payment_idem.event_receipts r ON r.tenant = x.tenant AND r.receipt = x.exception_id \
     WHERE x.tenant = $1 AND x.order_id = $2 AND x.exception_id <> $4 \
       AND EXISTS (SELECT FROM pg_catalog.jsonb_each_text(r.payment_refs) AS a \
                   JOIN pg_catalog.jsonb_each_text($3) AS b \
                   USING (key, value)) \
     LIMIT 1",
    [UUIDOID, UUIDOID, JSONBOID, INT8OID]
);
// Another amount for the same payment stays open: it is a contradiction, whichever came first.
statement!(
    SUPERSEDE,
    "UPDATE payment_idem.exceptions \
     SET resolution = 'superseded', note = 'The payment is booked on this order by a later event.', \
         resolved_by = 'payment_idem', resolved_at = $4 \
     WHERE tenant = $1 AND order_id = $2 AND exception_id = ANY ($3) AND resolved_at IS NULL \
       AND (amount_minor, currency) = (expected_amount_minor, expected_currency)",
    [UUIDOID, UUIDOID, INT8ARRAYOID, TIMESTAMPTZOID]
);

/// Whether another event of a payment that shares one of these references raised an exception about
/// this order before.
pub fn on_record(tenant: Uuid, order_id: Uuid, references: &[Reference], receipt: i64) -> bool {
    !run!(ON_RECORD, tenant, order_id, references_to_json(references), receipt).is_empty()
}

/// Closes the open exceptions that these events raised, now that their payment is booked after all.
pub fn supersede(tenant: Uuid, order_id: Uuid, receipts: Vec<i64>, now: Moment) {
    run!(SUPERSEDE, tenant, order_id, receipts, now);
}
