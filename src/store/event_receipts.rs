//! `payment_idem.event_receipts`: found by identity, and the parked ones of an order.

use std::str::FromStr;

use pgrx::{JsonB, Uuid};

use crate::domain::event::{Event, Reference};
use crate::domain::kind::Kind;
use crate::pg::moment::Moment;
use crate::pg::statement::{run, statement};

statement!(
    FIND,
    "SELECT r.receipt, r.payload_sha256, r.first_outcome, r.first_reason, r.outcome, r.event_id, r.order_id, \
            r.received_at, \
            (SELECT o.status::text FROM payment_idem.orders o WHERE o.tenant = $1 AND o.order_id = r.order_id) \
     FROM payment_idem.event_receipts r \
     WHERE r.tenant = $1 AND r.source = $2 AND r.identity = $3",
    [UUIDOID, TEXTOID, TEXTOID]
);
statement!(NEXT_NUMBER, "SELECT nextval('payment_idem.receipt_number')", []);
statement!(
    UNSIGNED_ID_TAKEN,
    "SELECT receipt, payload_sha256 FROM payment_idem.event_receipts \
     WHERE tenant = $1 AND source = $2 AND event_id = $3 AND identity_kind = 'digest' AND receipt <> $4 \
     ORDER BY receipt LIMIT 1",
    [UUIDOID, TEXTOID, TEXTOID, INT8OID]
);
/// The columns of a parked event, in the order in which [`parked`] reads them.
macro_rules! select_parked {
    ($where:literal) => {
        concat!(
            "SELECT receipt, source, identity, event_id, event_type, kind, merchant_id, order_reference, \
                    gateway_order_id, amount_minor, currency, bank_utr, payment_refs \
             FROM payment_idem.event_receipts WHERE tenant = $1 AND ",
            $where,
            " ORDER BY receipt"
        )
    };
}
statement!(
    PARKED_BY_REFERENCE,
    select_parked!("outcome = 'parked' AND order_reference = $2"),
    [UUIDOID, TEXTOID]
);
statement!(
    PARKED_BY_GATEWAY_ORDER,
    select_parked!("outcome = 'parked' AND gateway_order_id = $2 AND gateway_order_id IS NOT NULL"),
    [UUIDOID, TEXTOID]
);

statement!(PARKED_BY_IDENTITY, select_parked!("source = $2 AND identity = $3"), [UUIDOID, TEXTOID, TEXTOID]);

/// What is known of an event that came before.
#[derive(Clone)]
pub struct Known {
    /// Its number.
    pub receipt: i64,
    /// The digest of its first bytes.
    pub payload_sha256: Vec<u8>,
    /// What its first delivery was answered,
    pub first_outcome: String,
    /// and why.
    pub first_reason: Option<String>,
    /// What has become of it since.
    pub outcome: String,
    /// Its event id.
    pub event_id: Option<String>,
    /// Its order,
    pub order_id: Option<Uuid>,
    /// and that order's status now.
    pub order_status: Option<String>,
    /// When it came first.
    pub received_at: Moment,
}

/// A parked event: all that is needed to decide it without its body.
pub struct Parked {
    /// Its number.
    pub receipt: i64,
    /// Its source.
    pub source: String,
    /// Its identity.
    pub identity: String,
    /// The event, as it was read.
    pub event: Event,
}

/// The event with this identity.
pub fn find(tenant: Uuid, source: &str, identity: &str) -> Option<Known> {
    run!(FIND, tenant, source, identity).first().map(|row| Known {
        receipt: row.value(1),
        payload_sha256: row.value(2),
        first_outcome: row.value(3),
        first_reason: row.get(4),
        outcome: row.value(5),
        event_id: row.get(6),
        order_id: row.get(7),
        received_at: row.value(8),
        order_status: row.get(9),
    })
}

/// A new number, in order of arrival.
pub fn next_number() -> i64 {
    run!(NEXT_NUMBER).first().expect("a sequence gives a number").value(1)
}

/// The first other event under the same unsigned id: its number and digest.
pub fn unsigned_id_taken(tenant: Uuid, source: &str, event_id: &str, receipt: i64) -> Option<(i64, Vec<u8>)> {
    run!(UNSIGNED_ID_TAKEN, tenant, source, event_id, receipt).first().map(|row| (row.value(1), row.value(2)))
}

/// The events that wait for an order under this reference, in order of arrival.
pub fn parked_by_reference(tenant: Uuid, order_reference: &str) -> Vec<Parked> {
    run!(PARKED_BY_REFERENCE, tenant, order_reference).iter().map(|row| parked(&row)).collect()
}

/// The events that wait for an order under this gateway order id, in order of arrival.
pub fn parked_by_gateway_order(tenant: Uuid, gateway_order_id: &str) -> Vec<Parked> {
    run!(PARKED_BY_GATEWAY_ORDER, tenant, gateway_order_id).iter().map(|row| parked(&row)).collect()
}

/// The parked event with this identity.
pub fn parked_by_identity(tenant: Uuid, source: &str, identity: &str) -> Option<Parked> {
    run!(PARKED_BY_IDENTITY, tenant, source, identity).first().map(|row| parked(&row))
}

/// Payment references as a JSON object {kind: value}; `None` where there are none.
pub fn references_to_json(references: &[Reference]) -> Option<JsonB> {
    let object: serde_json::Map<String, serde_json::Value> =
        references.iter().map(|reference| (reference.kind.clone(), reference.value.clone().into())).collect();
    (!object.is_empty()).then(|| JsonB(object.into()))
}

fn parked(row: &crate::pg::statement::Row<'_>) -> Parked {
    let currency: Option<String> = row.get(11);
    let kind: Option<String> = row.get(6);
    Parked {
        receipt: row.value(1),
        source: row.value(2),
        identity: row.value(3),
        event: Event {
            event_id: row.get(4),
            event_type: row.get(5).unwrap_or_default(),
            kind: kind.and_then(|kind| Kind::from_str(&kind).ok()),
            merchant_id: row.get(7),
            order_reference: row.get(8),
            gateway_order_id: row.get(9),
            amount_minor: row.get(10),
            currency: currency.and_then(|currency| currency.parse().ok()),
            bank_reference: row.get(12),
            references: row.get(13).map(references_from_json).unwrap_or_default(),
            // Neither decides anything once the event is parked.
            payer: None,
            event_time_us: None,
            live_mode: None,
        },
    }
}

fn references_from_json(JsonB(json): JsonB) -> Vec<Reference> {
    let object = json.as_object().cloned().unwrap_or_default();
    object
        .into_iter()
        .filter_map(|(kind, value)| Some(Reference { kind, value: value.as_str()?.to_owned() }))
        .collect()
}
