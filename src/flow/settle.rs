//! Decides an event whose order is locked, and writes what was decided.

use pgrx::Uuid;

use crate::domain::decision::{Decision, Move, ReferenceState, Situation, Taken, claims_references, decide};
use crate::domain::event::Event;
use crate::domain::gateway::BANK_REFERENCE_KIND;
use crate::domain::ledger::{Line, idempotency_hash};
use crate::domain::order::{Order, Status};
use crate::domain::outcome::{Outcome, Reason};
use crate::flow::locate::Found;
use crate::pg::error::serialization_failure;
use crate::pg::moment::Moment;
use crate::store::effects::{self, Booking, Delivery, ExceptionFacts, Receipt, Written};
use crate::store::payment_references::{self, Keys};
use crate::store::sources::Source;
use crate::store::exceptions;

/// An event to be settled.
pub struct Case<'a> {
    /// The tenant.
    pub tenant: Uuid,
    /// The source.
    pub source: &'a Source,
    /// Its identity.
    pub identity: &'a str,
    /// Its number.
    pub receipt: i64,
    /// The event.
    pub event: &'a Event,
    /// The id to store; the event's own, or as given where it carries none.
    pub event_id: Option<&'a str>,
    /// What only a first delivery brings; `None` for a parked event.
    pub delivery: Option<&'a Delivery<'a>>,
    /// Now.
    pub now: Moment,
}

/// What became of it.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// The outcome,
    pub outcome: Outcome,
    /// and why.
    pub reason: Option<Reason>,
    /// The order,
    pub order_id: Option<Uuid>,
    /// and its status now.
    pub order_status: Option<Status>,
}

impl Settled {
    /// What became of an event that concerns no order.
    pub fn alone(outcome: Outcome, reason: Reason) -> Self {
        Settled { outcome, reason: Some(reason), order_id: None, order_status: None }
    }
}

/// Decides and writes; `None` where a rival with the same identity was first.
pub fn settle(case: &Case<'_>, found: &Found) -> Option<Settled> {
    let references = found.order().map(|order| reference_keys(case, order)).unwrap_or_default();
    let taken = payment_references::taken(&references);
    let decision = decide(case.event, &situation(case, found, &taken));
    match decision {
        Decision::Apply(ref to) => {
            let Found::Known(order) = found else { unreachable!("only a known order moves") };
            apply(case, found, order, to, &references, &taken)
        }
        Decision::Raise(reason) => {
            let receipt = receipt(case, found, Outcome::Exception, Some(reason));
            let written = effects::raise(&receipt, &references, &exception_facts(reason, found));
            (written == Written::All).then(|| settled(found, Outcome::Exception, Some(reason)))
        }
        Decision::Record(reason) => {
            // Its new names join the payment that it is, so that a third event is known by either.
            let joined = taken.iter().find(|taken| found.order().is_some_and(|o| o.order_id == taken.order_id));
            let (references, state) = match (reason, joined) {
                (Reason::SamePayment, Some(Taken { state: ReferenceState::Applied, .. })) => (references, "applied"),
                (Reason::SamePayment, Some(_)) => (references, "held"),
                _ => (Keys::default(), "held"),
            };
            let written = effects::record(&receipt(case, found, Outcome::Recorded, Some(reason)), &references, state);
            (written == Written::All).then(|| settled(found, Outcome::Recorded, Some(reason)))
        }
        Decision::Park(reason) => {
            let receipt = receipt(case, found, Outcome::Parked, Some(reason));
            let written = effects::record(&receipt, &Keys::default(), "held");
            (written == Written::All).then(|| settled(found, Outcome::Parked, Some(reason)))
        }
    }
}

fn apply(
    case: &Case<'_>,
    found: &Found,
    order: &Order,
    to: &Move,
    references: &Keys,
    taken: &[Taken],
) -> Option<Settled> {
    let booking = booking(case, order, to);
    match effects::apply(&receipt(case, found, Outcome::Applied, None), references, &booking) {
        Written::RivalWasFirst => None,
        Written::ReferenceWasTaken => Some(decide_again(case, found, references)),
        Written::All => {
            if taken.iter().any(|taken| taken.state == ReferenceState::Held) {
                for reference in &case.event.references {
                    let order_id = Uuid::from_bytes(order.order_id);
                    exceptions::supersede(case.tenant, order_id, &reference.kind, &reference.value, case.now);
                }
            }
            Some(Settled {
                outcome: Outcome::Applied,
                reason: None,
                order_id: Some(Uuid::from_bytes(order.order_id)),
                order_status: Some(to.to),
            })
        }
    }
}

/// A reference went to another order between our look and our write. The receipt stands, the money
/// was not booked: decide by what is true now, and correct the receipt.
fn decide_again(case: &Case<'_>, found: &Found, references: &Keys) -> Settled {
    let taken = payment_references::taken(references);
    let others: Vec<Taken> = taken
        .into_iter()
        .filter(|taken| found.order().is_none_or(|order| order.order_id != taken.order_id))
        .collect();
    let (outcome, reason) = match decide(case.event, &situation(case, found, &others)) {
        Decision::Raise(reason) => (Outcome::Exception, reason),
        Decision::Record(reason) => (Outcome::Recorded, reason),
        Decision::Apply(_) | Decision::Park(_) => serialization_failure("The reference was taken and given back by another transaction in this moment."),
    };
    let receipt = receipt(case, found, outcome, Some(reason));
    effects::amend(&receipt, references, &exception_facts(reason, found));
    settled(found, outcome, Some(reason))
}

fn situation<'a>(case: &'a Case<'_>, found: &'a Found, taken: &'a [Taken]) -> Situation<'a> {
    // Where a held reference of the order itself cannot tell that an exception is on record, ask.
    let order = found.order();
    let may_be_on_record = matches!(found, Found::Contradiction(_))
        || taken.iter().any(|taken| order.is_some_and(|order| order.order_id != taken.order_id));
    let on_record = may_be_on_record
        && order.zip(case.event.references.first()).is_some_and(|(order, reference)| {
            let order_id = Uuid::from_bytes(order.order_id);
            exceptions::on_record(case.tenant, order_id, &reference.kind, &reference.value)
        });
    Situation { order: found.as_located(), taken, on_record, rules: &case.source.rules }
}

/// The keys of the event's payment references; none where the event is no payment.
fn reference_keys(case: &Case<'_>, order: &Order) -> Keys {
    let event = case.event;
    if !claims_references(event) {
        return Keys::default();
    }
    let mut keys: Vec<(Uuid, String, String, String)> = event
        .references
        .iter()
        .map(|reference| {
            // A bank's reference is the same at every gateway.
            let (scope, gateway) = match reference.kind.as_str() {
                BANK_REFERENCE_KIND => (case.source.bank_scope, ""),
                _ => (case.tenant, case.source.gateway_name.as_str()),
            };
            (scope, gateway.to_owned(), reference.kind.clone(), reference.value.clone())
        })
        .collect();
    if let (Some(utr), Some(amount_minor)) = (&event.bank_reference, event.amount_minor) {
        let hash = idempotency_hash(&order.client_txn_id, utr, amount_minor);
        keys.push((case.source.bank_scope, String::new(), "idempotency_hash".to_owned(), hash));
    }
    Keys::new(keys)
}

fn booking<'a>(case: &Case<'a>, order: &'a Order, to: &'a Move) -> Booking<'a> {
    Booking {
        line: Line {
            prev_hash: order.ledger_head,
            tenant: *case.tenant.as_bytes(),
            receipt: case.receipt,
            kind: case.event.kind.expect("only a mapped event moves an order").as_str(),
            order_id: order.order_id,
            seq: order.ledger_seq + 1,
            event_type: to.event_type,
            amount_minor: to.amount_minor,
            currency: &order.currency,
            from_status: order.status,
            to_status: to.to,
            source: &case.source.name,
            event_id: case.event_id,
            gateway_order_id: case.event.gateway_order_id.as_deref(),
            bank_utr: case.event.bank_reference.as_deref(),
            created_at_us: case.now.0,
        },
        queued: to.action.map(|action| (action, order.outbox_seq + 1)),
    }
}

fn receipt<'a>(
    case: &'a Case<'a>,
    found: &Found,
    outcome: Outcome,
    reason: Option<Reason>,
) -> Receipt<'a> {
    Receipt {
        tenant: case.tenant,
        source: &case.source.name,
        identity: case.identity,
        receipt: case.receipt,
        event: Some(case.event),
        event_id: case.event_id,
        outcome,
        reason,
        order_id: found.order().map(|order| Uuid::from_bytes(order.order_id)),
        delivery: case.delivery,
        now: case.now,
    }
}

fn settled(found: &Found, outcome: Outcome, reason: Option<Reason>) -> Settled {
    Settled {
        outcome,
        reason,
        order_id: found.order().map(|order| Uuid::from_bytes(order.order_id)),
        order_status: found.order().map(|order| order.status),
    }
}

fn exception_facts(reason: Reason, found: &Found) -> ExceptionFacts<'_> {
    ExceptionFacts {
        expected: found.order().map(|order| (order.amount_minor, order.currency.as_str())),
        detail: match reason {
            Reason::AmountMismatch => "The amount is not the order's.",
            Reason::CurrencyMismatch => "The currency is missing, ill-formed or not the order's.",
            Reason::ReferenceMismatch => "Merchant, order reference and gateway order id do not name one order.",
            Reason::SecondPayment => "The order is paid by another payment.",
            Reason::ReferenceReused => "A reference of the payment belongs to another order.",
            _ => "The tenant's rules have no such move from the order's status.",
        },
    }
}
