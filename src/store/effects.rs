//! The one statement that writes all that an event does: receipt, references, ledger line, order,
//! outbox row, exception, evidence.
//!
//! Everything in it hangs on the receipt having gone in (or, for a parked event, having been
//! parked still), and the money on all references having gone in too. A rival that was first
//! leaves a statement that wrote nothing.

use std::thread::LocalKey;

use pgrx::pg_sys::Datum;
use pgrx::{JsonB, Uuid};

use crate::domain::event::Event;
use crate::domain::ledger::{CHAIN_VERSION, Line};
use crate::domain::outcome::{Outcome, Reason};
use crate::pg::error::write_prevented;
use crate::pg::moment::Moment;
use crate::pg::statement::{Rows, Statement, arg, statement};
use crate::store::event_receipts::references_to_json;
use crate::store::payment_references::Keys;

/// The event's receipt and what was decided of it.
pub struct Receipt<'a> {
    /// The tenant.
    pub tenant: Uuid,
    /// The source.
    pub source: &'a str,
    /// The identity.
    pub identity: &'a str,
    /// The event's number.
    pub receipt: i64,
    /// The event as it was read; `None` where it could not be.
    pub event: Option<&'a Event>,
    /// The event's id, where it is known.
    pub event_id: Option<&'a str>,
    /// What is decided,
    pub outcome: Outcome,
    /// and why.
    pub reason: Option<Reason>,
    /// The order it was judged against.
    pub order_id: Option<Uuid>,
    /// What only a first delivery has; `None` settles a parked event.
    pub delivery: Option<&'a Delivery<'a>>,
    /// Now.
    pub now: Moment,
}

/// What the first delivery brings beside the event.
pub struct Delivery<'a> {
    /// `event_id` or `digest`.
    pub identity_kind: &'a str,
    /// SHA-256 of the body.
    pub payload_sha256: [u8; 32],
    /// The body, where it is to be kept.
    pub evidence: Option<&'a [u8]>,
}

/// The new state of the order with its ledger line.
pub struct Booking<'a> {
    /// The line; its hash goes with it.
    pub line: Line<'a>,
    /// The outbox action to queue, with its seq.
    pub queued: Option<(&'a str, i64)>,
}

/// The facts of an exception.
pub struct ExceptionFacts<'a> {
    /// What the order asks for, in minor units and currency.
    pub expected: Option<(i64, &'a str)>,
    /// What is wrong, in words that quote no payload.
    pub detail: &'a str,
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of it went in.
    All,
    /// A rival with the same identity was first; nothing was written.
    RivalWasFirst,
    /// The receipt went in, but a reference went to another order in this moment: decide again, amend it.
    ReferenceWasTaken,
}

/// $1..$28 of every statement. A first delivery inserts its receipt …
macro_rules! first_delivery {
    ($rest:expr) => {
        concat!(
            "WITH receipt AS ( \
                 INSERT INTO payment_idem.event_receipts (tenant, source, identity, receipt, identity_kind, event_id, \
                     payload_sha256, event_type, kind, first_outcome, first_reason, outcome, reason, order_id, \
                     merchant_id, order_reference, gateway_order_id, amount_minor, currency, bank_utr, payment_refs, \
                     event_time, received_at, processed_at) \
                 VALUES ($1, $2, $3, $4, $17, $5, $18, $19, $6, $8, $9, $8, $9, $7, $20, $21, $11, $22, $23, $12, $24, \
                     $25, $10, CASE WHEN $8 <> 'parked' THEN $10 END) \
                 ON CONFLICT (tenant, source, identity) DO NOTHING \
                 RETURNING receipt), \
             evidence AS ( \
                 INSERT INTO payment_idem.payloads (tenant, receipt, order_id, received_at, raw_payload, payer_vpa) \
                 SELECT $1, receipt, $7, $10, $26, $27 FROM receipt WHERE $28), ",
            $rest
        )
    };
}

/// … and a parked event is settled, where nobody else has settled it: it is not processed yet. (Not
/// "outcome = 'parked'", which would invite the planner to read the index of all parked events.)
macro_rules! parked_event {
    ($rest:expr) => {
        concat!(
            "WITH receipt AS ( \
                 UPDATE payment_idem.event_receipts SET outcome = $8, reason = $9, order_id = $7, processed_at = $10 \
                 WHERE tenant = $1 AND source = $2 AND identity = $3 AND processed_at IS NULL \
                 RETURNING receipt), ",
            $rest
        )
    };
}

macro_rules! apply {
    () => {
        "refs AS ( \
             INSERT INTO payment_idem.payment_references AS r (scope, gateway, kind, value, tenant, order_id, receipt, state) \
             SELECT e.scope, e.gateway, e.kind, e.value, $1, $7, receipt, 'applied' \
             FROM receipt, unnest($13, $14, $15, $16) AS e (scope, gateway, kind, value) \
             ON CONFLICT (scope, gateway, kind, value) \
             DO UPDATE SET state = 'applied', receipt = excluded.receipt \
             WHERE r.tenant = excluded.tenant AND r.order_id = excluded.order_id AND r.state = 'held' \
             RETURNING 1), \
         claimed AS ( \
             SELECT receipt FROM receipt WHERE (SELECT count(*) FROM refs) = cardinality($13)), \
         line AS ( \
             INSERT INTO payment_idem.transactions (tenant, receipt, kind, order_id, seq, event_type, amount_minor, \
                 currency, from_status, to_status, source, event_id, gateway_order_id, bank_utr, created_at, \
                 chain_version, prev_hash, hash) \
             SELECT $1, receipt, $6, $7, $29, $30::payment_idem.payment_event_type, $31, $32, \
                 $33::payment_idem.order_status, $34::payment_idem.order_status, $2, $5, $11, $12, $10, $35, $36, $37 \
             FROM claimed RETURNING 1), \
         moved AS ( \
             UPDATE payment_idem.orders o \
             SET status = $34::payment_idem.order_status, paid_minor = o.paid_minor + $31, version = o.version + 1, \
                 ledger_seq = $29, ledger_head = $37, outbox_seq = coalesce($39, o.outbox_seq), updated_at = $10 \
             FROM claimed WHERE o.tenant = $1 AND o.order_id = $7 RETURNING 1), \
         queued AS ( \
             INSERT INTO payment_idem.outbox (tenant, receipt, action, order_id, seq, available_at, created_at) \
             SELECT $1, receipt, $38, $7, $39, $10, $10 FROM claimed WHERE $38 IS NOT NULL RETURNING 1) \
         SELECT (SELECT count(*) FROM receipt), (SELECT count(*) FROM claimed), (SELECT count(*) FROM line), \
                (SELECT count(*) FROM moved), (SELECT count(*) FROM queued)"
    };
}

macro_rules! raise {
    () => {
        "refs AS ( \
             INSERT INTO payment_idem.payment_references (scope, gateway, kind, value, tenant, order_id, receipt, state) \
             SELECT e.scope, e.gateway, e.kind, e.value, $1, $7, receipt, 'held' \
             FROM receipt, unnest($13, $14, $15, $16) AS e (scope, gateway, kind, value) \
             ON CONFLICT (scope, gateway, kind, value) DO NOTHING RETURNING 1), \
         opened AS ( \
             INSERT INTO payment_idem.exceptions (tenant, exception_id, source, kind, order_id, amount_minor, currency, \
                 expected_amount_minor, expected_currency, reference_kind, reference_value, detail, opened_at) \
             SELECT $1, receipt, $2, $9, $7, $29, $30, $31, $32, $33, $34, $35, $10 FROM receipt RETURNING 1) \
         SELECT (SELECT count(*) FROM receipt), (SELECT count(*) FROM refs), (SELECT count(*) FROM opened)"
    };
}

macro_rules! record {
    () => {
        "refs AS ( \
             INSERT INTO payment_idem.payment_references AS r (scope, gateway, kind, value, tenant, order_id, receipt, state) \
             SELECT e.scope, e.gateway, e.kind, e.value, $1, $7, receipt, $29 \
             FROM receipt, unnest($13, $14, $15, $16) AS e (scope, gateway, kind, value) \
             ON CONFLICT (scope, gateway, kind, value) DO UPDATE SET state = excluded.state, receipt = excluded.receipt \
             WHERE r.tenant = excluded.tenant AND r.order_id = excluded.order_id AND r.state = 'held' \
               AND excluded.state = 'applied' RETURNING 1) \
         SELECT (SELECT count(*) FROM receipt), (SELECT count(*) FROM refs)"
    };
}

/// A statement whose first 28 parameters are those of [`common`].
macro_rules! effect {
    ($name:ident, $text:expr, [$($type:ident),* $(,)?]) => {
        statement!($name, $text, [
            UUIDOID, TEXTOID, TEXTOID, INT8OID, TEXTOID, TEXTOID, UUIDOID, TEXTOID, TEXTOID, TIMESTAMPTZOID,
            TEXTOID, TEXTOID, UUIDARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID,
            TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, TEXTOID, JSONBOID, TIMESTAMPTZOID, BYTEAOID,
            TEXTOID, BOOLOID, $($type),*
        ]);
    };
}

effect!(
    APPLY_FIRST,
    first_delivery!(apply!()),
    [INT8OID, TEXTOID, INT8OID, TEXTOID, TEXTOID, TEXTOID, INT2OID, BYTEAOID, BYTEAOID, TEXTOID, INT8OID]
);
effect!(
    APPLY_PARKED,
    parked_event!(apply!()),
    [INT8OID, TEXTOID, INT8OID, TEXTOID, TEXTOID, TEXTOID, INT2OID, BYTEAOID, BYTEAOID, TEXTOID, INT8OID]
);
effect!(
    RAISE_FIRST,
    first_delivery!(raise!()),
    [INT8OID, TEXTOID, INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID]
);
effect!(
    RAISE_PARKED,
    parked_event!(raise!()),
    [INT8OID, TEXTOID, INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID]
);
effect!(RECORD_FIRST, first_delivery!(record!()), [TEXTOID]);
effect!(RECORD_PARKED, parked_event!(record!()), [TEXTOID]);

// What the statement that wrote the receipt could not know: a reference went to another order meanwhile.
statement!(
    AMEND,
    "WITH amended AS ( \
         UPDATE payment_idem.event_receipts \
         SET outcome = $5, reason = $6, \
             first_outcome = CASE first_outcome WHEN 'parked' THEN first_outcome ELSE $5 END, \
             first_reason = CASE first_outcome WHEN 'parked' THEN first_reason ELSE $6 END \
         WHERE tenant = $1 AND source = $2 AND identity = $3 RETURNING receipt), \
     demoted AS ( \
         UPDATE payment_idem.payment_references r SET state = 'held' \
         FROM unnest($7, $8, $9, $10) AS e (scope, gateway, kind, value) \
         WHERE r.scope = e.scope AND r.gateway = e.gateway AND r.kind = e.kind AND r.value = e.value AND r.receipt = $4), \
     opened AS ( \
         INSERT INTO payment_idem.exceptions (tenant, exception_id, source, kind, order_id, amount_minor, currency, \
             expected_amount_minor, expected_currency, reference_kind, reference_value, detail, opened_at) \
         SELECT $1, receipt, $2, $6, $11, $12, $13, $14, $15, $16, $17, $18, $19 FROM amended WHERE $5 = 'exception' \
         ON CONFLICT (tenant, exception_id) DO UPDATE SET kind = excluded.kind, detail = excluded.detail RETURNING 1), \
     withdrawn AS ( \
         DELETE FROM payment_idem.exceptions WHERE tenant = $1 AND exception_id = $4 AND $5 <> 'exception') \
     SELECT (SELECT count(*) FROM amended), (SELECT count(*) FROM opened)",
    [
        UUIDOID,
        TEXTOID,
        TEXTOID,
        INT8OID,
        TEXTOID,
        TEXTOID,
        UUIDARRAYOID,
        TEXTARRAYOID,
        TEXTARRAYOID,
        TEXTARRAYOID,
        UUIDOID,
        INT8OID,
        TEXTOID,
        INT8OID,
        TEXTOID,
        TEXTOID,
        TEXTOID,
        TEXTOID,
        TIMESTAMPTZOID
    ]
);

/// Writes an applied event: money or status moves.
pub fn apply(receipt: &Receipt<'_>, references: &Keys, booking: &Booking<'_>) -> Written {
    let line = &booking.line;
    let mut arguments = common(receipt, references);
    arguments.extend([
        arg(line.seq),
        arg(line.event_type),
        arg(line.amount_minor),
        arg(line.currency),
        arg(line.from_status.as_str()),
        arg(line.to_status.as_str()),
        arg(CHAIN_VERSION),
        arg(line.prev_hash.as_ref().map(<[u8; 32]>::as_slice)),
        arg(line.hash().as_slice()),
        arg(booking.queued.map(|queued| queued.0)),
        arg(booking.queued.map(|queued| queued.1)),
    ]);
    match counts::<5>(&run_for(receipt, &APPLY_FIRST, &APPLY_PARKED, &arguments)) {
        [0, ..] => Written::RivalWasFirst,
        [1, 0, ..] => Written::ReferenceWasTaken,
        [1, 1, 1, 1, queued] if queued == i64::from(booking.queued.is_some()) => Written::All,
        _ => write_prevented("an event's effect"),
    }
}

/// Writes an event that is not acceptable as business, with its exception. Of the references,
/// `fresh` are expected to be new, and are held for the order.
pub fn raise(receipt: &Receipt<'_>, references: &Keys, fresh: usize, facts: &ExceptionFacts<'_>) -> Written {
    let mut arguments = common(receipt, references);
    arguments.extend(exception_columns(receipt, facts));
    match counts::<3>(&run_for(receipt, &RAISE_FIRST, &RAISE_PARKED, &arguments)) {
        [0, ..] => Written::RivalWasFirst,
        [1, held, 1] if held == fresh as i64 => Written::All,
        [1, _, 1] => Written::ReferenceWasTaken,
        _ => write_prevented("an exception"),
    }
}

/// Writes an event that changes nothing, or waits. References that are new join the payment whose
/// other references are known, in its state (`applied` or `held`); so many are expected to change.
pub fn record(receipt: &Receipt<'_>, references: &Keys, fresh: usize, state: &str) -> Written {
    let mut arguments = common(receipt, references);
    arguments.push(arg(state));
    match counts::<2>(&run_for(receipt, &RECORD_FIRST, &RECORD_PARKED, &arguments)) {
        [0, _] => Written::RivalWasFirst,
        [1, joined] if joined == fresh as i64 => Written::All,
        [1, _] => Written::ReferenceWasTaken,
        _ => write_prevented("a receipt"),
    }
}

/// Runs the statement for a first delivery, or the one for a parked event.
fn run_for(
    receipt: &Receipt<'_>,
    first: &'static LocalKey<Statement>,
    parked: &'static LocalKey<Statement>,
    arguments: &[Option<Datum>],
) -> Rows {
    if receipt.delivery.is_some() { first } else { parked }.with(|statement| statement.run(arguments))
}

/// Corrects a receipt that was decided by references which are another order's by now
/// ([`Written::ReferenceWasTaken`]); what it holds of them waits for a person.
pub fn amend(receipt: &Receipt<'_>, references: &Keys, facts: &ExceptionFacts<'_>) {
    let [amount, currency, expected_amount, expected_currency, kind, value, detail] =
        exception_columns(receipt, facts);
    let rows = AMEND.with(|statement| {
        statement.run(&[
            arg(receipt.tenant),
            arg(receipt.source),
            arg(receipt.identity),
            arg(receipt.receipt),
            arg(receipt.outcome.as_str()),
            arg(receipt.reason.map(Reason::as_str)),
            arg(references.scopes.clone()),
            arg(references.gateways.clone()),
            arg(references.kinds.clone()),
            arg(references.values.clone()),
            arg(receipt.order_id),
            amount,
            currency,
            expected_amount,
            expected_currency,
            kind,
            value,
            detail,
            arg(receipt.now),
        ])
    });
    if counts(&rows) != [1, i64::from(receipt.outcome == Outcome::Exception)] {
        write_prevented("an exception")
    }
}

fn common(receipt: &Receipt<'_>, references: &Keys) -> Vec<Option<Datum>> {
    let event = receipt.event;
    let delivery = receipt.delivery;
    vec![
        arg(receipt.tenant),
        arg(receipt.source),
        arg(receipt.identity),
        arg(receipt.receipt),
        arg(receipt.event_id),
        arg(event.and_then(|event| event.kind).map(|kind| kind.as_str())),
        arg(receipt.order_id),
        arg(receipt.outcome.as_str()),
        arg(receipt.reason.map(Reason::as_str)),
        arg(receipt.now),
        arg(event.and_then(|event| event.gateway_order_id.as_deref())),
        arg(event.and_then(|event| event.bank_reference.as_deref())),
        arg(references.scopes.clone()),
        arg(references.gateways.clone()),
        arg(references.kinds.clone()),
        arg(references.values.clone()),
        // From here on, what only a first delivery has.
        arg(delivery.map(|delivery| delivery.identity_kind)),
        arg(delivery.map(|delivery| delivery.payload_sha256.as_slice())),
        arg(event.map(|event| event.event_type.as_str())),
        arg(event.and_then(|event| event.merchant_id.as_deref())),
        arg(event.and_then(|event| event.order_reference.as_deref())),
        arg(event.and_then(|event| event.amount_minor)),
        arg(event.and_then(|event| event.currency).as_ref().map(|currency| currency.as_str())),
        arg(event.and_then(|event| -> Option<JsonB> { references_to_json(&event.references) })),
        arg(event.and_then(|event| event.event_time_us).and_then(Moment::from_unix_us)),
        arg(delivery.and_then(|delivery| delivery.evidence)),
        arg(delivery.and(event).and_then(|event| event.payer.as_deref())),
        arg(delivery.is_some_and(|delivery| delivery.evidence.is_some())),
    ]
}

fn exception_columns(receipt: &Receipt<'_>, facts: &ExceptionFacts<'_>) -> [Option<Datum>; 7] {
    let event = receipt.event;
    let reference = event.and_then(|event| event.references.first());
    [
        arg(event.and_then(|event| event.amount_minor)),
        arg(event.and_then(|event| event.currency).as_ref().map(|currency| currency.as_str())),
        arg(facts.expected.map(|expected| expected.0)),
        arg(facts.expected.map(|expected| expected.1)),
        arg(reference.map(|reference| reference.kind.as_str())),
        arg(reference.map(|reference| reference.value.as_str())),
        arg(facts.detail),
    ]
}

fn counts<const N: usize>(rows: &Rows) -> [i64; N] {
    let row = rows.first().expect("a SELECT of counts gives a row");
    std::array::from_fn(|index| row.value(index as i32 + 1))
}
