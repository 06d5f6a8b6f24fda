//! `payment_idem.exceptions`: what a person has to look at. Opened, and closed where they turn out to be settled.

use pgrx::Uuid;

use crate::domain::event::Event;
use crate::domain::kind::Kind;
use crate::domain::order::Order;
use crate::domain::outcome::Reason;
use crate::pg::error::write_prevented;
use crate::pg::moment::Moment;
use crate::pg::statement::{RowOf, arg, row_statement, run, statement};
use crate::store::payment_references::Key;

row_statement!(
    OPEN,
    "INSERT INTO payment_idem.exceptions (tenant, exception_id, source, kind, order_id, amount_minor, currency, \
         expected_amount_minor, expected_currency, reference_kind, reference_value, detail, opened_at) \
     SELECT tenant, exception_id, source, kind, order_id, amount_minor, currency, expected_amount_minor, \
         expected_currency, reference_kind, reference_value, detail, opened_at \
     FROM {rows}",
    [
        (tenant, UUIDOID),
        (exception_id, INT8OID),
        (source, TEXTOID),
        (kind, TEXTOID),
        (order_id, UUIDOID),
        (amount_minor, INT8OID),
        (currency, TEXTOID),
        (expected_amount_minor, INT8OID),
        (expected_currency, TEXTOID),
        (reference_kind, TEXTOID),
        (reference_value, TEXTOID),
        (detail, TEXTOID),
        (opened_at, TIMESTAMPTZOID)
    ]
);

row_statement!(
    NAME,
    "INSERT INTO payment_idem.exception_references (scope, gateway, kind, value, tenant, exception_id) \
     SELECT scope, gateway, kind, value, tenant, exception_id FROM {rows}",
    [
        (scope, UUIDOID),
        (gateway, TEXTOID),
        (kind, TEXTOID),
        (value, TEXTOID),
        (tenant, UUIDOID),
        (exception_id, INT8OID)
    ]
);
// Of the same kind of event, because what is on record of a failed attempt must not hide money.
row_statement!(
    ON_RECORD,
    "SELECT 1 FROM {rows} \
     JOIN payment_idem.exception_references e \
       ON e.scope = n.scope AND e.gateway = n.gateway AND e.kind = n.kind AND e.value = n.value AND e.tenant = n.tenant \
     JOIN payment_idem.exceptions x ON x.tenant = e.tenant AND x.exception_id = e.exception_id \
     JOIN payment_idem.event_receipts r ON r.tenant = e.tenant AND r.receipt = e.exception_id \
     WHERE x.order_id IS NOT DISTINCT FROM n.order_id AND r.kind = n.event_kind LIMIT 1",
    [
        (scope, UUIDOID),
        (gateway, TEXTOID),
        (kind, TEXTOID),
        (value, TEXTOID),
        (tenant, UUIDOID),
        (order_id, UUIDOID),
        (event_kind, TEXTOID)
    ]
);
statement!(
    ON_RECORD_OF_BOOKED,
    "SELECT 1 FROM payment_idem.exceptions x \
     JOIN payment_idem.event_receipts r ON r.tenant = x.tenant AND r.receipt = x.exception_id \
     JOIN payment_idem.sources s ON s.tenant = x.tenant AND s.source = x.source \
     WHERE x.tenant = $1 AND x.order_id = $2 AND r.kind = $3 \
       AND EXISTS (SELECT FROM pg_catalog.jsonb_each_text(r.payment_refs) AS a \
                   JOIN payment_idem.payment_references p ON p.kind = a.key AND p.value = a.value \
                    AND p.scope = CASE a.key WHEN 'bank' THEN $4 ELSE $1 END \
                    AND p.gateway = CASE a.key WHEN 'bank' THEN '' ELSE s.gateway END \
                   WHERE p.tenant = $1 AND p.order_id = $2 AND p.state = 'applied') \
     LIMIT 1",
    [UUIDOID, UUIDOID, TEXTOID, UUIDOID]
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

/// What an exception is about.
pub struct Facts<'a> {
    /// The number of the event.
    pub receipt: i64,
    /// Its source.
    pub source: &'a str,
    /// Why.
    pub reason: Reason,
    /// The event; `None` where it could not be read.
    pub event: Option<&'a Event>,
    /// The order that it was judged against.
    pub order: Option<&'a Order>,
    /// What is wrong, in words that quote no payload.
    pub detail: &'a str,
}

/// The row of a new exception.
pub fn row(tenant: Uuid, facts: &Facts<'_>, now: Moment) -> RowOf<13> {
    let reference = facts.event.and_then(|event| event.references.first());
    [
        arg(tenant),
        arg(facts.receipt),
        arg(facts.source),
        arg(facts.reason.as_str()),
        arg(facts.order.map(|order| Uuid::from_bytes(order.order_id))),
        arg(facts.event.and_then(|event| event.amount_minor)),
        arg(facts.event.and_then(|event| event.currency).as_ref().map(|currency| currency.as_str())),
        arg(facts.order.map(|order| order.amount_minor)),
        arg(facts.order.map(|order| order.currency.as_str())),
        arg(reference.map(|reference| reference.kind.as_str())),
        arg(reference.map(|reference| reference.value.as_str())),
        arg(facts.detail),
        arg(now),
    ]
}

/// The row by which an exception is found, of one reference of its payment.
pub fn reference_row(tenant: Uuid, receipt: i64, reference: &Key) -> RowOf<6> {
    let [scope, gateway, kind, value] = reference.columns();
    [scope, gateway, kind, value, arg(tenant), arg(receipt)]
}

/// Opens exceptions, to be found by these references.
pub fn open(rows: &[RowOf<13>], references: &[RowOf<6>]) {
    if OPEN.with(|statement| statement.run(rows)).len() < rows.len() {
        write_prevented("an exception");
    }
    if NAME.with(|statement| statement.run(references)).len() < references.len() {
        write_prevented("a reference of an exception");
    }
}

/// Whether an event of this kind, about this order or about none that could be named, has raised an
/// exception of a payment with one of these references.
pub fn on_record<'a>(
    tenant: Uuid,
    order_id: Option<Uuid>,
    kind: Kind,
    references: impl Iterator<Item = &'a Key>,
) -> bool {
    let rows: Vec<RowOf<7>> = references
        .map(|reference| {
            let [scope, gateway, reference_kind, value] = reference.columns();
            [scope, gateway, reference_kind, value, arg(tenant), arg(order_id), arg(kind.as_str())]
        })
        .collect();
    !ON_RECORD.with(|statement| statement.run(&rows)).is_empty()
}

/// Whether an event of this kind has raised an exception of the payment that is booked on the order.
pub fn on_record_of_booked(tenant: Uuid, order_id: Uuid, kind: Kind, bank_scope: Uuid) -> bool {
    !run!(ON_RECORD_OF_BOOKED, tenant, order_id, kind.as_str(), bank_scope).is_empty()
}

/// Closes the open exceptions that these events raised, now that their payment is booked after all.
pub fn supersede(tenant: Uuid, order_id: Uuid, receipts: Vec<i64>, now: Moment) {
    run!(SUPERSEDE, tenant, order_id, receipts, now);
}
