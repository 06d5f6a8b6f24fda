//! Settles events whose orders are locked: decides them in turn, then writes what was decided.

use pgrx::Uuid;

use crate::domain::event::{Event, Unreadable};
use crate::domain::order::Status;
use crate::domain::outcome::{Outcome, Reason};
use crate::flow::book::{Book, Writes};
use crate::flow::locate::{Found, Orders};
use crate::pg::error::{serialization_failure, write_prevented};
use crate::pg::moment::Moment;
use crate::store::event_receipts::{self, Delivery};
use crate::store::sources::Source;
use crate::store::{exceptions, orders, outbox, payloads, payment_references, transactions};

/// An event to be settled.
pub struct Case<'a> {
    /// The source.
    pub source: &'a Source,
    /// Its identity.
    pub identity: &'a str,
    /// Its number.
    pub receipt: i64,
    /// The event, or why it cannot be read.
    pub event: Result<&'a Event, &'a Unreadable>,
    /// The id to store; the event's own, or as given where it carries none.
    pub event_id: Option<&'a str>,
    /// Where it comes from.
    pub origin: Origin<'a>,
    /// The order that it names; [`Found::Unknown`] also where it needs none.
    pub found: Found,
}

/// Where an event comes from.
pub enum Origin<'a> {
    /// It is delivered for the first time.
    Delivered(Delivery<'a>),
    /// It was parked, for this reason.
    Parked(&'a str),
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

/// Somebody else has written or settled one of these events; nothing was written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalWasFirst;

/// A reference can go elsewhere between our look and our write once per rival; more often than
/// this, something else is wrong.
const MAX_TURNS: usize = 1000;

/// Decides and writes these events of one tenant, as if they had come one after the other.
pub fn settle(
    tenant: Uuid,
    orders: &Orders,
    cases: &[Case<'_>],
    now: Moment,
) -> Result<Vec<Settled>, RivalWasFirst> {
    // A single event looks its references up only where it matters: those of an ordinary payment are
    // new, and the unique key tells when they are not.
    let mut book = Book::new(tenant, orders, now);
    if cases.len() > 1 {
        book.read_references(cases);
    }
    for _ in 0..MAX_TURNS {
        let Some((settled, writes)) = book.decide(cases) else {
            book.read_references(cases);
            continue;
        };
        match write(tenant, &writes, now)? {
            Written::All => return Ok(settled),
            // No serial order of the two calls would give these decisions: decide by what is true now.
            Written::ReferenceWasTaken if book.read_references(cases) => {}
            Written::ReferenceWasTaken => write_prevented("a payment reference"),
        }
    }
    serialization_failure("Other transactions took the payment references of this call again and again.")
}

enum Written {
    All,
    ReferenceWasTaken,
}

/// Writes in the order in which locks are taken everywhere: receipts, then references, then what
/// hangs on them. Where one of those is another transaction's, what went in before is taken back.
fn write(tenant: Uuid, writes: &Writes<'_>, now: Moment) -> Result<Written, RivalWasFirst> {
    let receipts: Vec<_> = writes.receipts.iter().map(|(_, _, row)| *row).collect();
    let inserted = event_receipts::insert(&receipts);
    // Whoever has settled an event has the references under its number, too: the receipts come first.
    let settled = match inserted == receipts.len() {
        true => event_receipts::settle(&writes.settlements.iter().map(|(_, row)| *row).collect::<Vec<_>>()),
        false => Vec::new(),
    };
    let take_back = || {
        if inserted > 0 {
            let numbers = writes.receipts.iter().map(|(_, receipt, _)| *receipt).collect();
            event_receipts::take_back(tenant, numbers);
        }
        let parked = writes.settlements.iter().map(|(parked, _)| *parked);
        event_receipts::park_again(tenant, parked.filter(|(receipt, _)| settled.contains(receipt)));
    };
    if inserted < receipts.len() || settled.len() < writes.settlements.len() {
        take_back();
        return Err(RivalWasFirst);
    }
    let [fresh, moved] = writes.references();
    if !payment_references::claim(tenant, &fresh) {
        take_back();
        return Ok(Written::ReferenceWasTaken);
    }
    payment_references::move_on(tenant, &moved);
    exceptions::open(&writes.exceptions, &writes.exception_references);
    for (order_id, receipts) in &writes.superseded {
        exceptions::supersede(tenant, Uuid::from_bytes(*order_id), receipts.clone(), now);
    }
    transactions::append(&writes.lines);
    orders::move_on(tenant, writes.moved(), now);
    outbox::queue(&writes.queued);
    payloads::keep(&writes.evidence);
    Ok(Written::All)
}
