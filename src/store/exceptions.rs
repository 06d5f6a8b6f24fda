//! `payment_idem.exceptions`: what a person has to look at. Opened, and closed where they turn out to be settled.

use pgrx::Uuid;

use crate::domain::event::Event;
use crate::domain::order::Order;
use crate::domain::outcome::Reason;
use crate::pg::error::write_prevented;
use crate::pg::moment::Moment;
use crate::pg::statement::{RowOf, arg, row_statement, run, statement};
use crate::store::event_receipts::references_to_json;
use crate::store::sources::Source;

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

/// An earlier exception of an event of the same kind $5 whose names meet a condition. The kind,
/// because what is on record of a failed attempt must not hide money.
macro_rules! on_record {
    ($order:literal, $names:expr) => {
        concat!(
            "SELECT 1 FROM payment_idem.exceptions x \
             JOIN payment_idem.event_receipts r ON r.tenant = x.tenant AND r.receipt = x.exception_id \
             JOIN payment_idem.sources s ON s.tenant = x.tenant AND s.source = x.source \
             WHERE x.tenant = $1 AND x.exception_id <> $4 AND r.kind = $5 AND ",
            $order,
            " AND (",
            $names,
            ") LIMIT 1"
        )
    };
}
/// It shares a name with $2: of the same gateway $3, or of a bank.
macro_rules! shares_a_name {
    () => {
        "EXISTS (SELECT FROM pg_catalog.jsonb_each_text(r.payment_refs) AS a \
                 JOIN pg_catalog.jsonb_each_text($2) AS b USING (key, value) WHERE s.gateway = $3 OR key = 'bank')"
    };
}
statement!(
    ON_RECORD_OF_ORDER,
    on_record!(
        "x.order_id = $6",
        concat!(
            shares_a_name!(),
            // Or it has a name of the payment that is booked on the order, where ours is that payment.
            " OR $7 AND EXISTS (SELECT FROM pg_catalog.jsonb_each_text(r.payment_refs) AS a \
                 JOIN payment_idem.payment_references p ON p.kind = a.key AND p.value = a.value \
                  AND p.scope = CASE a.key WHEN 'bank' THEN $8 ELSE $1 END \
                  AND p.gateway = CASE a.key WHEN 'bank' THEN '' ELSE s.gateway END \
                 WHERE p.tenant = $1 AND p.order_id = $6 AND p.state = 'applied')"
        )
    ),
    [UUIDOID, JSONBOID, TEXTOID, INT8OID, TEXTOID, UUIDOID, BOOLOID, UUIDOID]
);
statement!(
    ON_RECORD_OF_NO_ORDER,
    on_record!("x.order_id IS NULL", shares_a_name!()),
    [UUIDOID, JSONBOID, TEXTOID, INT8OID, TEXTOID]
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

/// Opens exceptions.
pub fn open(rows: &[RowOf<13>]) {
    if OPEN.with(|statement| statement.run(rows)).len() < rows.len() {
        write_prevented("an exception");
    }
}

/// Whether another event of the same kind and payment raised an exception about this order before,
/// or about no order that could be named. `booked`: the payment is the one booked on the order, and
/// so has all the names that are applied there.
pub fn on_record(
    tenant: Uuid,
    order_id: Option<Uuid>,
    source: &Source,
    event: &Event,
    receipt: i64,
    booked: bool,
) -> bool {
    let references = references_to_json(&event.references);
    let kind = event.kind.map(|kind| kind.as_str());
    let gateway = source.gateway_name.as_str();
    let rows = match order_id {
        Some(order_id) => run!(
            ON_RECORD_OF_ORDER,
            tenant,
            references,
            gateway,
            receipt,
            kind,
            order_id,
            booked,
            source.bank_scope
        ),
        None => run!(ON_RECORD_OF_NO_ORDER, tenant, references, gateway, receipt, kind),
    };
    !rows.is_empty()
}

/// Closes the open exceptions that these events raised, now that their payment is booked after all.
pub fn supersede(tenant: Uuid, order_id: Uuid, receipts: Vec<i64>, now: Moment) {
    run!(SUPERSEDE, tenant, order_id, receipts, now);
}
