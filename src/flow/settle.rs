//! Decides an event whose order is locked, and writes what was decided.

use pgrx::Uuid;

use crate::domain::decision::{
    Decision, Move, ReferenceState, Situation, Taken, claims_references, decide, is_booked, money_differs,
};
use crate::domain::event::Event;
use crate::domain::gateway::BANK_REFERENCE_KIND;
use crate::domain::ledger::{Line, idempotency_hash};
use crate::domain::order::{Order, Status};
use crate::domain::outcome::{Outcome, Reason};
use crate::flow::locate::Found;
use crate::pg::error::{serialization_failure, write_prevented};
use crate::pg::moment::Moment;
use crate::store::effects::{self, Booking, Delivery, ExceptionFacts, Receipt, Written};
use crate::store::exceptions;
use crate::store::payment_references::{self, Keys};
use crate::store::sources::Source;

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
    let (taken, brought_by): (Vec<Taken>, Vec<i64>) =
        payment_references::taken(&references).into_iter().unzip();
    let held_by = held_receipts(found, &taken, &brought_by);
    let fresh = references.len() - taken.len();

    let decision = decide(case.event, &situation(case, found, &taken));
    let settled = outcome_of(&decision, found);
    let receipt = receipt(case, found, &settled);
    let none = Keys::default();
    let booked = found.order().is_some_and(|order| is_booked(order, &taken));
    let written = match &decision {
        Decision::Apply(to) => {
            let order = found.order().expect("only a known order moves");
            effects::apply(&receipt, &references, &booking(case, order, to))
        }
        Decision::Raise(reason) => {
            effects::raise(&receipt, &references, fresh, &exception_facts(*reason, found))
        }
        // Its new names join the payment that it is, so that a third event is known by either.
        Decision::Record(Reason::SamePayment) if booked => {
            effects::record(&receipt, &references, fresh + held_by.len(), "applied")
        }
        Decision::Record(Reason::SamePayment) => effects::record(&receipt, &references, fresh, "held"),
        Decision::Record(_) | Decision::Park(_) => effects::record(&receipt, &none, 0, "held"),
    };
    match written {
        Written::RivalWasFirst => None,
        Written::ReferenceWasTaken => Some(decide_again(case, found, &references)),
        Written::All => {
            if booked || settled.outcome == Outcome::Applied {
                supersede(case, found, held_by); // what waited is the payment that is booked now
            }
            Some(settled)
        }
    }
}

/// A reference went to another order between our look and our write. The receipt stands, by a
/// decision that no serial order of the two would give: decide by what is true now, and correct it.
fn decide_again(case: &Case<'_>, found: &Found, references: &Keys) -> Settled {
    let stored = payment_references::taken(references);
    if stored.len() < references.len() {
        write_prevented("a payment reference");
    }
    let taken: Vec<Taken> = stored
        .into_iter()
        .filter(|(_, brought_by)| *brought_by != case.receipt)
        .map(|(taken, _)| taken)
        .collect();
    let decision = decide(case.event, &situation(case, found, &taken));
    let settled = outcome_of(&decision, found);
    match (&decision, settled.reason) {
        (Decision::Raise(_) | Decision::Record(_), Some(reason)) => {
            effects::amend(&receipt(case, found, &settled), references, &exception_facts(reason, found));
        }
        _ => serialization_failure(
            "A payment reference was taken and given back by another transaction in this moment.",
        ),
    }
    settled
}

/// What the decision is in the words of the answer.
fn outcome_of(decision: &Decision, found: &Found) -> Settled {
    let (outcome, reason) = match decision {
        Decision::Apply(_) => (Outcome::Applied, None),
        Decision::Record(reason) => (Outcome::Recorded, Some(*reason)),
        Decision::Park(reason) => (Outcome::Parked, Some(*reason)),
        Decision::Raise(reason) => (Outcome::Exception, Some(*reason)),
    };
    let moved_to = match decision {
        Decision::Apply(to) => Some(to.to),
        _ => None,
    };
    Settled {
        outcome,
        reason,
        order_id: found.order().map(|order| Uuid::from_bytes(order.order_id)),
        order_status: moved_to.or(found.order().map(|order| order.status)),
    }
}

/// The events of this order whose payment waits in an exception and shares a reference.
fn held_receipts(found: &Found, taken: &[Taken], brought_by: &[i64]) -> Vec<i64> {
    let is_held_here = |taken: &Taken| {
        taken.state == ReferenceState::Held
            && found.order().is_some_and(|order| order.order_id == taken.order_id)
    };
    taken
        .iter()
        .zip(brought_by)
        .filter(|(taken, _)| is_held_here(taken))
        .map(|(_, receipt)| *receipt)
        .collect()
}

fn supersede(case: &Case<'_>, found: &Found, held_by: Vec<i64>) {
    if let (Some(order), false) = (found.order(), held_by.is_empty()) {
        exceptions::supersede(case.tenant, Uuid::from_bytes(order.order_id), held_by, case.now);
    }
}

fn situation<'a>(case: &'a Case<'_>, found: &'a Found, taken: &'a [Taken]) -> Situation<'a> {
    let order = found.order();
    // Where no held reference can tell that an exception is on record, ask.
    let ask = matches!(found, Found::Contradiction(_))
        || order.is_some_and(|order| {
            taken.iter().any(|taken| taken.order_id != order.order_id)
                || (!taken.is_empty() && money_differs(case.event, order).is_some())
        });
    let on_record = ask
        && exceptions::on_record(
            case.tenant,
            order.map(|order| Uuid::from_bytes(order.order_id)),
            &case.source.gateway_name,
            case.event,
            case.receipt,
        );
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

fn receipt<'a>(case: &'a Case<'a>, found: &Found, settled: &Settled) -> Receipt<'a> {
    Receipt {
        tenant: case.tenant,
        source: &case.source.name,
        identity: case.identity,
        receipt: case.receipt,
        event: Some(case.event),
        event_id: case.event_id,
        outcome: settled.outcome,
        reason: settled.reason,
        order_id: found.order().map(|order| Uuid::from_bytes(order.order_id)),
        delivery: case.delivery,
        now: case.now,
    }
}

fn exception_facts(reason: Reason, found: &Found) -> ExceptionFacts<'_> {
    ExceptionFacts {
        expected: found.order().map(|order| (order.amount_minor, order.currency.as_str())),
        detail: match reason {
            Reason::AmountMismatch => "The amount is not the order's.",
            Reason::CurrencyMismatch => "The currency is missing, ill-formed or not the order's.",
            Reason::ReferenceMismatch => {
                "Merchant, order reference and gateway order id do not name one order."
            }
            Reason::SecondPayment => "The order is paid by another payment.",
            Reason::ReferenceReused => "A reference of the payment belongs to another order.",
            _ => "The tenant's rules have no such move from the order's status.",
        },
    }
}
