//! The decision: what one event does to one order. All branching is here, and nothing else is.

use crate::domain::event::Event;
use crate::domain::kind::Kind;
use crate::domain::order::{Id, Order, Rules, Status};
use crate::domain::outcome::Reason;

/// The outbox action that an order's completion asks for.
pub const FULFIL_ORDER: &str = "fulfil_order";

/// The outbox action that an event without facts asks for.
pub const FETCH_STATUS: &str = "fetch_status";

/// Which order the event's references name.
#[derive(Clone, Copy, Debug)]
pub enum Located<'a> {
    /// None that we know.
    Unknown,
    /// This one, and no reference contradicts.
    Known(&'a Order),
    /// Merchant, order reference and gateway order id do not name one order; the one that the
    /// order reference names, where it names one.
    Contradiction(Option<&'a Order>),
}

/// Whether the money of a payment reference is booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceState {
    /// Booked.
    Applied,
    /// Waiting in an exception.
    Held,
    /// Waiting, and named together with a reference of another order: it never pays this one.
    Contested,
}

/// One of the event's references that belongs to an order already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The order it belongs to.
    pub order_id: Id,
    /// Whether its money is booked.
    pub state: ReferenceState,
}

/// Everything that the decision looks at beside the event, as read under the order's lock.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The order that the event names.
    pub order: Located<'a>,
    /// Those of the event's references that are taken.
    pub taken: &'a [Taken],
    /// Whether an exception for this payment and this order is on record already.
    pub on_record: bool,
    /// The tenant's allowed moves.
    pub rules: &'a Rules,
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Move the order and write a ledger line.
    Apply(Move),
    /// Keep the receipt; there is nothing to do.
    Record(Reason),
    /// Keep the receipt until its cause appears.
    Park(Reason),
    /// Keep the receipt and raise an exception.
    Raise(Reason),
}

/// A move of the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The status after.
    pub to: Status,
    /// What is booked, in signed minor units; 0 where no money moved.
    pub amount_minor: i64,
    /// A label of `payment_event_type`.
    pub event_type: &'static str,
    /// The outbox action to queue.
    pub action: Option<&'static str>,
}

/// What an event comes to without any order; `None` where an order has to be looked for.
pub fn decide_alone(event: &Event, source_is_live: bool) -> Option<Decision> {
    if event.live_mode.is_some_and(|live| live != source_is_live) {
        return Some(Decision::Record(Reason::TestMode));
    }
    match event.kind {
        None => Some(Decision::Record(Reason::UnmappedType)),
        Some(_) if event.is_thin => Some(Decision::Park(Reason::AwaitingDetails)),
        Some(kind) if !concerns_payment(kind) => Some(Decision::Record(Reason::Informational)),
        Some(_) if event.order_reference.is_none() && event.gateway_order_id.is_none() => {
            Some(Decision::Record(Reason::Informational))
        }
        Some(_) => None,
    }
}

/// What an event comes to, in its situation.
pub fn decide(event: &Event, situation: &Situation<'_>) -> Decision {
    let order = match situation.order {
        Located::Unknown => return Decision::Park(Reason::OrderNotFound),
        Located::Contradiction(order) => {
            // What is booked is booked: another event of that payment is no news.
            let no_news = claims_references(event)
                && order.is_some_and(|order| {
                    is_booked(order, situation.taken) && money_differs(event, order).is_none()
                });
            return match no_news {
                true => Decision::Record(Reason::SamePayment),
                false => raise_once(Reason::ReferenceMismatch, order, situation),
            };
        }
        Located::Known(order) => order,
    };
    match event.kind {
        Some(Kind::PaymentSucceeded) => decide_payment(event, order, situation),
        Some(kind) => decide_progress(kind, order, situation.rules),
        None => Decision::Record(Reason::UnmappedType),
    }
}

/// Whether the payment's references are to be claimed for the order, so that no other order can
/// use them: a failed attempt claims nothing, for its payment may still succeed.
pub fn claims_references(event: &Event) -> bool {
    event.kind == Some(Kind::PaymentSucceeded)
}

fn concerns_payment(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::PaymentAttempted
            | Kind::PaymentAuthorized
            | Kind::PaymentSucceeded
            | Kind::PaymentFailed
            | Kind::PaymentExpired
    )
}

/// Money arrived. Identity comes first, then whether it is news, then amount and currency.
fn decide_payment(event: &Event, order: &Order, situation: &Situation<'_>) -> Decision {
    if is_contested(order, situation.taken) {
        return raise_once(Reason::ReferenceReused, Some(order), situation);
    }
    let booked = is_booked(order, situation.taken);
    if !booked && order.paid_minor > 0 {
        return raise_once(Reason::SecondPayment, Some(order), situation);
    }
    if let Some(reason) = money_differs(event, order) {
        // Also of a payment that is booked: two amounts for one payment are a contradiction to look at,
        // whichever came first.
        return raise_once(reason, Some(order), situation);
    }
    if booked {
        return Decision::Record(Reason::SamePayment);
    }
    match situation.rules.next(Kind::PaymentSucceeded, order.status) {
        Some(to) => Decision::Apply(Move {
            to,
            amount_minor: order.amount_minor,
            event_type: "WEBHOOK_RECEIVED",
            action: (to == Status::Completed).then_some(FULFIL_ORDER),
        }),
        None => raise_once(Reason::TransitionNotAllowed, Some(order), situation),
    }
}

/// Whether the payment whose references are taken so is booked on this order, and on no other.
pub fn is_booked(order: &Order, taken: &[Taken]) -> bool {
    !is_contested(order, taken) && taken.iter().any(|taken| taken.state == ReferenceState::Applied)
}

/// Whether a name of the payment belongs to another order, as far as is known.
pub fn is_contested(order: &Order, taken: &[Taken]) -> bool {
    taken.iter().any(|taken| taken.order_id != order.order_id || taken.state == ReferenceState::Contested)
}

/// How the event's money is not what the order asks for; a missing currency never matches.
pub fn money_differs(event: &Event, order: &Order) -> Option<Reason> {
    if event.currency.as_ref().map(|currency| currency.as_str()) != Some(order.currency.as_str()) {
        Some(Reason::CurrencyMismatch)
    } else if event.amount_minor != Some(order.amount_minor) {
        Some(Reason::AmountMismatch)
    } else {
        None
    }
}

/// No money: an attempt began, failed or expired.
fn decide_progress(kind: Kind, order: &Order, rules: &Rules) -> Decision {
    match rules.next(kind, order.status) {
        Some(to) => Decision::Apply(Move {
            to,
            amount_minor: 0,
            event_type: if kind == Kind::PaymentAttempted { "PAYMENT_ATTEMPTED" } else { "WEBHOOK_RECEIVED" },
            action: None,
        }),
        None if rules.aims_at(kind) == Some(order.status) => Decision::Record(Reason::AlreadyInState),
        None => Decision::Record(Reason::Stale),
    }
}

/// An exception is raised once per payment: when its reference is held for this order, or the
/// exception is on record, another event of it is no news.
fn raise_once(reason: Reason, order: Option<&Order>, situation: &Situation<'_>) -> Decision {
    let held_here = order.is_some_and(|order| {
        situation
            .taken
            .iter()
            .any(|taken| taken.order_id == order.order_id && taken.state != ReferenceState::Applied)
    });
    if held_here || situation.on_record {
        Decision::Record(Reason::SamePayment)
    } else {
        Decision::Raise(reason)
    }
}
