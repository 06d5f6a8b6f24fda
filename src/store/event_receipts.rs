//! `payment_idem.event_receipts`: found by identity, inserted, settled, and the parked ones of an order.

use std::str::FromStr;

use pgrx::{JsonB, Uuid};

use crate::domain::event::{Event, Reference};
use crate::domain::kind::Kind;
use crate::domain::outcome::{Outcome, Reason};
use crate::pg::moment::Moment;
use crate::pg::statement::{RowOf, arg, row_statement, run, statement};

row_statement!(
    FIND,
    "SELECT r.identity, r.receipt, r.payload_sha256, r.first_outcome, r.first_reason, r.outcome, r.event_id, \
            r.order_id, r.received_at \
     FROM {rows} JOIN payment_idem.event_receipts r \
       ON r.tenant = n.tenant AND r.source = n.source AND r.identity = n.identity",
    [(tenant, UUIDOID), (source, TEXTOID), (identity, TEXTOID)]
);
statement!(
    TAKE_NUMBERS,
    "SELECT nextval('payment_idem.receipt_number') FROM pg_catalog.generate_series(1, $1)",
    [INT4OID]
);
statement!(TAKE_NUMBER, "SELECT nextval('payment_idem.receipt_number')", []);
row_statement!(
    INSERT,
    "INSERT INTO payment_idem.event_receipts (tenant, source, identity, receipt, identity_kind, event_id, \
         payload_sha256, event_type, kind, first_outcome, first_reason, outcome, reason, order_id, merchant_id, \
         order_reference, gateway_order_id, amount_minor, currency, bank_utr, payment_refs, event_time, received_at, \
         processed_at) \
     SELECT tenant, source, identity, receipt, identity_kind, event_id, payload_sha256, event_type, kind, outcome, \
         reason, outcome, reason, order_id, merchant_id, order_reference, gateway_order_id, amount_minor, currency, \
         bank_utr, payment_refs, event_time, received_at, processed_at \
     FROM {rows} ON CONFLICT (tenant, source, identity) DO NOTHING",
    [
        (tenant, UUIDOID),
        (source, TEXTOID),
        (identity, TEXTOID),
        (receipt, INT8OID),
        (identity_kind, TEXTOID),
        (event_id, TEXTOID),
        (payload_sha256, BYTEAOID),
        (event_type, TEXTOID),
        (kind, TEXTOID),
        (outcome, TEXTOID),
        (reason, TEXTOID),
        (order_id, UUIDOID),
        (merchant_id, TEXTOID),
        (order_reference, TEXTOID),
        (gateway_order_id, TEXTOID),
        (amount_minor, INT8OID),
        (currency, TEXTOID),
        (bank_utr, TEXTOID),
        (payment_refs, JSONBOID),
        (event_time, TIMESTAMPTZOID),
        (received_at, TIMESTAMPTZOID),
        (processed_at, TIMESTAMPTZOID)
    ]
);
// "Not processed" and not "outcome = 'parked'", which would invite the planner to read the index of all parked events.
row_statement!(
    SETTLE,
    "UPDATE payment_idem.event_receipts r \
     SET outcome = n.outcome, reason = n.reason, order_id = n.order_id, processed_at = n.processed_at \
     FROM {rows} \
     WHERE r.tenant = n.tenant AND r.source = n.source AND r.identity = n.identity AND r.processed_at IS NULL \
     RETURNING r.receipt",
    [
        (tenant, UUIDOID),
        (source, TEXTOID),
        (identity, TEXTOID),
        (outcome, TEXTOID),
        (reason, TEXTOID),
        (order_id, UUIDOID),
        (processed_at, TIMESTAMPTZOID)
    ]
);
row_statement!(
    PARK_AGAIN,
    "UPDATE payment_idem.event_receipts r \
     SET outcome = 'parked', reason = n.reason, order_id = NULL, processed_at = NULL \
     FROM {rows} WHERE r.receipt = n.receipt AND r.tenant = n.tenant",
    [(tenant, UUIDOID), (receipt, INT8OID), (reason, TEXTOID)]
);
statement!(
    TAKE_BACK,
    "DELETE FROM payment_idem.event_receipts WHERE tenant = $1 AND receipt = ANY ($2)",
    [UUIDOID, INT8ARRAYOID]
);
statement!(
    UNSIGNED_ID_TAKEN,
    "SELECT receipt, payload_sha256 FROM payment_idem.event_receipts \
     WHERE tenant = $1 AND source = $2 AND event_id = $3 AND identity_kind = 'digest' AND receipt NOT BETWEEN $4 AND $5 \
     ORDER BY receipt LIMIT 1",
    [UUIDOID, TEXTOID, TEXTOID, INT8OID, INT8OID]
);
/// The columns of a parked event, in the order in which [`read_parked`] reads them.
macro_rules! select_parked {
    ($where:literal) => {
        concat!(
            "SELECT receipt, source, identity, reason, event_id, event_type, kind, merchant_id, order_reference, \
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
    /// Its order.
    pub order_id: Option<Uuid>,
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
    /// Why it waits.
    pub reason: String,
    /// The event, as it was read.
    pub event: Event,
}

/// Those events of the source that came before, each with its identity.
pub fn find(tenant: Uuid, source: &str, identities: &[&str]) -> Vec<(String, Known)> {
    let rows: Vec<RowOf<3>> =
        identities.iter().map(|identity| [arg(tenant), arg(source), arg(*identity)]).collect();
    FIND.with(|statement| statement.run(&rows))
        .iter()
        .map(|row| {
            let known = Known {
                receipt: row.value(2),
                payload_sha256: row.value(3),
                first_outcome: row.value(4),
                first_reason: row.get(5),
                outcome: row.value(6),
                event_id: row.get(7),
                order_id: row.get(8),
                received_at: row.value(9),
            };
            (row.value(1), known)
        })
        .collect()
}

/// New numbers, in order of arrival.
pub fn take_numbers(count: usize) -> Vec<i64> {
    let numbers = match count {
        0 => return Vec::new(),
        1 => run!(TAKE_NUMBER),
        _ => run!(TAKE_NUMBERS, i32::try_from(count).expect("a batch is bounded")),
    };
    numbers.iter().map(|row| row.value(1)).collect()
}

/// What the first delivery of an event brings beside what was decided of it.
pub struct Delivery<'a> {
    /// `event_id` or `digest`.
    pub identity_kind: &'a str,
    /// SHA-256 of the body.
    pub payload_sha256: [u8; 32],
    /// The body, where it is to be kept.
    pub evidence: Option<&'a [u8]>,
}

/// What was decided of an event.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// The outcome,
    pub outcome: Outcome,
    /// why,
    pub reason: Option<Reason>,
    /// the order it was judged against,
    pub order_id: Option<Uuid>,
    /// and when.
    pub at: Moment,
}

impl Verdict {
    fn processed_at(&self) -> Option<Moment> {
        (self.outcome != Outcome::Parked).then_some(self.at)
    }
}

/// The row of a new event; `event` is `None` where it could not be read.
pub fn row(
    (tenant, source, identity): (Uuid, &str, &str),
    receipt: i64,
    event_id: Option<&str>,
    event: Option<&Event>,
    delivery: &Delivery<'_>,
    verdict: &Verdict,
) -> RowOf<22> {
    [
        arg(tenant),
        arg(source),
        arg(identity),
        arg(receipt),
        arg(delivery.identity_kind),
        arg(event_id),
        arg(delivery.payload_sha256.as_slice()),
        arg(event.map(|event| event.event_type.as_str())),
        arg(event.and_then(|event| event.kind).map(|kind| kind.as_str())),
        arg(verdict.outcome.as_str()),
        arg(verdict.reason.map(Reason::as_str)),
        arg(verdict.order_id),
        arg(event.and_then(|event| event.merchant_id.as_deref())),
        arg(event.and_then(|event| event.order_reference.as_deref())),
        arg(event.and_then(|event| event.gateway_order_id.as_deref())),
        arg(event.and_then(|event| event.amount_minor)),
        arg(event.and_then(|event| event.currency).as_ref().map(|currency| currency.as_str())),
        arg(event.and_then(|event| event.bank_reference.as_deref())),
        arg(event.and_then(|event| references_to_json(&event.references))),
        arg(event.and_then(|event| event.event_time_us).and_then(Moment::from_unix_us)),
        arg(verdict.at),
        arg(verdict.processed_at()),
    ]
}

/// Inserts new events, after rivals with the same identity have ended. Returns how many went in:
/// a rival was first with the others.
pub fn insert(rows: &[RowOf<22>]) -> usize {
    INSERT.with(|statement| statement.run(rows)).len()
}

/// The row that settles a parked event.
pub fn settlement((tenant, source, identity): (Uuid, &str, &str), verdict: &Verdict) -> RowOf<7> {
    [
        arg(tenant),
        arg(source),
        arg(identity),
        arg(verdict.outcome.as_str()),
        arg(verdict.reason.map(Reason::as_str)),
        arg(verdict.order_id),
        arg(verdict.processed_at()),
    ]
}

/// Settles parked events. Returns the numbers of those: somebody else has settled the others.
pub fn settle(rows: &[RowOf<7>]) -> Vec<i64> {
    SETTLE.with(|statement| statement.run(rows)).iter().map(|row| row.value(1)).collect()
}

/// Takes back that this call has settled parked events (number, and why they were parked), to decide again.
pub fn park_again<'a>(tenant: Uuid, events: impl Iterator<Item = (i64, &'a str)>) {
    let rows: Vec<RowOf<3>> =
        events.map(|(receipt, reason)| [arg(tenant), arg(receipt), arg(reason)]).collect();
    PARK_AGAIN.with(|statement| statement.run(&rows));
}

/// Takes back what this call has inserted, to decide again.
pub fn take_back(tenant: Uuid, receipts: Vec<i64>) {
    run!(TAKE_BACK, tenant, receipts);
}

/// The first event under this unsigned id, but for the numbers of this call from one to another:
/// its number and digest.
pub fn unsigned_id_taken(
    tenant: Uuid,
    source: &str,
    event_id: &str,
    (from, to): (i64, i64),
) -> Option<(i64, Vec<u8>)> {
    run!(UNSIGNED_ID_TAKEN, tenant, source, event_id, from, to)
        .first()
        .map(|row| (row.value(1), row.value(2)))
}

/// The events that wait for an order under this reference, in order of arrival.
pub fn parked_by_reference(tenant: Uuid, order_reference: &str) -> Vec<Parked> {
    run!(PARKED_BY_REFERENCE, tenant, order_reference).iter().map(|row| read_parked(&row)).collect()
}

/// The events that wait for an order under this gateway order id, in order of arrival.
pub fn parked_by_gateway_order(tenant: Uuid, gateway_order_id: &str) -> Vec<Parked> {
    run!(PARKED_BY_GATEWAY_ORDER, tenant, gateway_order_id).iter().map(|row| read_parked(&row)).collect()
}

/// The parked event with this identity.
pub fn parked(tenant: Uuid, source: &str, identity: &str) -> Option<Parked> {
    run!(PARKED_BY_IDENTITY, tenant, source, identity).first().map(|row| read_parked(&row))
}

/// Payment references as a JSON object {kind: value}; `None` where there are none.
pub fn references_to_json(references: &[Reference]) -> Option<JsonB> {
    let object: serde_json::Map<String, serde_json::Value> =
        references.iter().map(|reference| (reference.kind.clone(), reference.value.clone().into())).collect();
    (!object.is_empty()).then(|| JsonB(object.into()))
}

fn read_parked(row: &crate::pg::statement::Row<'_>) -> Parked {
    let currency: Option<String> = row.get(12);
    let kind: Option<String> = row.get(7);
    let reason: Option<String> = row.get(4);
    let reason = reason.as_deref();
    Parked {
        receipt: row.value(1),
        source: row.value(2),
        identity: row.value(3),
        reason: reason.unwrap_or_default().to_owned(), // a rival may have settled it since it was found
        event: Event {
            event_id: row.get(5),
            event_type: row.get(6).unwrap_or_default(),
            kind: kind.and_then(|kind| Kind::from_str(&kind).ok()),
            merchant_id: row.get(8),
            order_reference: row.get(9),
            gateway_order_id: row.get(10),
            amount_minor: row.get(11),
            currency: currency.and_then(|currency| currency.parse().ok()),
            bank_reference: row.get(13),
            references: row.get(14).map(references_from_json).unwrap_or_default(),
            // Neither decides anything once the event is parked.
            payer: None,
            event_time_us: None,
            live_mode: None,
            is_thin: reason == Some(Reason::AwaitingDetails.as_str()),
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
