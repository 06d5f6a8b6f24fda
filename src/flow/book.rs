//! The working copy of what a call holds locked: its events are decided on it in turn, each by what
//! the ones before have left, and it tells what is to be written in the end.

use std::collections::hash_map::HashMap;
use std::collections::{BTreeMap, BTreeSet};

use pgrx::Uuid;

use crate::domain::decision::{
    Decision, FETCH_STATUS, Located, Move, ReferenceState, Situation, Taken, claims_references, decide,
    decide_alone, is_booked, is_contested, money_differs,
};
use crate::domain::event::Event;
use crate::domain::gateway::BANK_REFERENCE_KIND;
use crate::domain::kind::Kind;
use crate::domain::ledger::{Line, idempotency_hash};
use crate::domain::order::{Id, Order};
use crate::domain::outcome::{Outcome, Reason};
use crate::flow::locate::{Found, Orders};
use crate::flow::settle::{Case, Origin, Settled};
use crate::pg::error::sentence;
use crate::pg::moment::Moment;
use crate::pg::statement::RowOf;
use crate::store::event_receipts::{self, Verdict};
use crate::store::payment_references::{self, Claim, Key};
use crate::store::{exceptions, outbox, payloads, transactions};

/// What a call knows before it decides.
pub struct Book<'a> {
    tenant: Uuid,
    orders: &'a Orders,
    now: Moment,
    /// The references that are taken; `None`: not read, taken to be free.
    stored: Option<BTreeMap<Key, Claim>>,
}

/// What a call writes.
#[derive(Default)]
pub struct Writes<'a> {
    /// New receipts: identity, number, row; sorted.
    pub receipts: Vec<((&'a str, &'a str), i64, RowOf<22>)>,
    /// Parked events that are settled now: number, why they were parked, row; sorted.
    pub settlements: Vec<((i64, &'a str), RowOf<7>)>,
    /// New exceptions.
    pub exceptions: Vec<RowOf<13>>,
    /// The references by which they are found.
    pub exception_references: Vec<RowOf<6>>,
    /// Events whose exceptions are settled by a payment that is booked now, by order.
    pub superseded: Vec<(Id, Vec<i64>)>,
    /// New ledger lines.
    pub lines: Vec<RowOf<18>>,
    /// Actions that are due.
    pub queued: Vec<RowOf<6>>,
    /// Bodies to keep.
    pub evidence: Vec<RowOf<6>>,
    orders: HashMap<Id, Order>,
    references: BTreeMap<Key, (Claim, Change)>,
    /// The references that are booked on an order only now.
    booked: HashMap<Id, Vec<Key>>,
    /// The names that the new exceptions' payments go by, each with the order and the kind of event.
    raised: BTreeSet<(Option<Id>, Kind, Key)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    New,
    Moved,
}

impl Writes<'_> {
    /// The references to be claimed, and the held ones that are so no longer, each in the order of their keys.
    pub fn references(&self) -> [Vec<(&Key, &Claim)>; 2] {
        let of = |wanted: Change| {
            self.references
                .iter()
                .filter(|(_, (_, change))| *change == wanted)
                .map(|(key, (claim, _))| (key, claim))
                .collect()
        };
        [of(Change::New), of(Change::Moved)]
    }

    /// The orders in their new states, in the order of their keys.
    pub fn moved(&self) -> impl Iterator<Item = &Order> {
        let order_ids: BTreeSet<&Id> = self.orders.keys().collect();
        order_ids.into_iter().map(|order_id| &self.orders[order_id])
    }
}

impl<'a> Book<'a> {
    /// Nothing is known of the references yet.
    pub fn new(tenant: Uuid, orders: &'a Orders, now: Moment) -> Self {
        Book { tenant, orders, now, stored: None }
    }

    /// Reads who has the references of these events. `false` where that is no news.
    pub fn read_references(&mut self, cases: &[Case<'_>]) -> bool {
        let keys: BTreeSet<Key> = cases
            .iter()
            .filter_map(|case| Some((case, case.found.order_id()?)))
            .flat_map(|(case, order_id)| self.keys(case, self.orders.get(order_id)))
            .collect();
        let stored = payment_references::find(keys.iter()).into_iter().collect();
        let is_news = self.stored.as_ref() != Some(&stored);
        self.stored = Some(stored);
        is_news
    }

    /// Decides the events in turn. `None` where the references have to be read first.
    pub fn decide<'b>(&self, cases: &'b [Case<'b>]) -> Option<(Vec<Settled>, Writes<'b>)> {
        let mut writes = Writes::default();
        let unchanged = |(key, claim): (&Key, &Claim)| (key.clone(), (*claim, Change::None));
        writes.references = self.stored.iter().flatten().map(unchanged).collect();
        let mut settled = Vec::with_capacity(cases.len());
        for case in cases {
            settled.push(self.decide_one(case, &mut writes)?);
        }
        writes.receipts.sort_unstable_by_key(|(identity, _, _)| *identity);
        writes.settlements.sort_unstable_by_key(|(parked, _)| *parked);
        Some((settled, writes))
    }

    fn decide_one<'b>(&self, case: &'b Case<'b>, writes: &mut Writes<'b>) -> Option<Settled> {
        let order_id = case.found.order_id();
        let mut order =
            order_id.map(|id| writes.orders.get(&id).unwrap_or_else(|| self.orders.get(id)).clone());
        let keys = order.as_ref().map(|order| self.keys(case, order)).unwrap_or_default();
        let known: Vec<Claim> =
            keys.iter().filter_map(|key| writes.references.get(key)).map(|(claim, _)| *claim).collect();
        let taken: Vec<Taken> = known.iter().map(|claim| claim.taken).collect();

        let (decision, detail) = match case.event {
            Err(unreadable) => (Decision::Raise(Reason::PayloadUnreadable), sentence(unreadable)),
            Ok(event) => {
                let decision = match decide_alone(event, case.source.live_mode) {
                    Some(decision) => decision,
                    None => {
                        let situation = Situation {
                            order: located(case.found, order.as_ref()),
                            taken: &taken,
                            on_record: self.on_record(case, event, order.as_ref(), &taken, writes),
                            rules: &case.source.rules,
                        };
                        decide(event, &situation)
                    }
                };
                let detail = exception_detail(&decision).to_owned();
                (decision, detail)
            }
        };
        let assumed_free = self.stored.is_none() && !keys.is_empty();
        if assumed_free && !matches!(decision, Decision::Apply(_)) {
            return None;
        }

        let booked = order.as_ref().is_some_and(|order| is_booked(order, &taken));
        let (outcome, reason) = match &decision {
            Decision::Apply(_) => (Outcome::Applied, None),
            Decision::Record(reason) => (Outcome::Recorded, Some(*reason)),
            Decision::Park(reason) => (Outcome::Parked, Some(*reason)),
            Decision::Raise(reason) => (Outcome::Exception, Some(*reason)),
        };
        // The references join the payment that they name: booked with it, or held for a person.
        let join = match &decision {
            Decision::Apply(_) => Some(ReferenceState::Applied),
            Decision::Record(Reason::SamePayment) if booked => Some(ReferenceState::Applied),
            Decision::Record(Reason::SamePayment) | Decision::Raise(_) => {
                let contested = order.as_ref().is_some_and(|order| is_contested(order, &taken));
                Some(if contested { ReferenceState::Contested } else { ReferenceState::Held })
            }
            Decision::Record(_) | Decision::Park(_) => None,
        };
        match (&decision, &mut order) {
            (Decision::Apply(to), Some(order)) => self.apply(case, to, order, writes),
            (Decision::Raise(reason), order) => {
                let facts = exceptions::Facts {
                    receipt: case.receipt,
                    source: &case.source.name,
                    reason: *reason,
                    event: case.event.ok(),
                    order: order.as_ref(),
                    detail: &detail,
                };
                writes.exceptions.push(exceptions::row(self.tenant, &facts, self.now));
                if let Some((event, kind)) = case.event.ok().and_then(|event| Some((event, event.kind?))) {
                    let names: BTreeSet<Key> = self.names(case, event).into_iter().collect();
                    let row = |name| exceptions::reference_row(self.tenant, case.receipt, name);
                    writes.exception_references.extend(names.iter().map(row));
                    writes.raised.extend(names.into_iter().map(|name| (order_id, kind, name)));
                }
            }
            (Decision::Park(Reason::AwaitingDetails), _) => {
                writes.queued.push(outbox::row(self.tenant, case.receipt, FETCH_STATUS, None, self.now));
            }
            _ => {}
        }
        if let (Some(order), Some(state)) = (&order, join) {
            // Written also where it stays as it is: a call with an older snapshot of it must fail, not
            // miss what went in here.
            writes.orders.entry(order.order_id).or_insert_with(|| order.clone());
            for key in keys {
                writes.join(key, order.order_id, state, case.receipt);
            }
        }
        if let (Some(order), true) = (&order, booked || outcome == Outcome::Applied) {
            // What waited in an exception is the payment that is booked now.
            let held: Vec<i64> = known
                .iter()
                .filter(|claim| claim.taken.order_id == order.order_id)
                .filter(|claim| claim.taken.state == ReferenceState::Held)
                .map(|claim| claim.receipt)
                .collect();
            if !held.is_empty() {
                writes.superseded.push((order.order_id, held));
            }
        }
        self.write_receipt(case, (outcome, reason), order_id, writes);
        Some(Settled {
            outcome,
            reason,
            order_id: order_id.map(Uuid::from_bytes),
            order_status: order.map(|order| order.status),
        })
    }

    /// Moves the order, appends its ledger line and queues what the move asks for.
    fn apply(&self, case: &Case<'_>, to: &Move, order: &mut Order, writes: &mut Writes<'_>) {
        let event = case.event.expect("only a readable event moves an order");
        let line = Line {
            prev_hash: order.ledger_head,
            tenant: *self.tenant.as_bytes(),
            receipt: case.receipt,
            kind: event.kind.expect("only a mapped event moves an order").as_str(),
            order_id: order.order_id,
            seq: order.ledger_seq + 1,
            event_type: to.event_type,
            amount_minor: to.amount_minor,
            currency: &order.currency,
            from_status: order.status,
            to_status: to.to,
            source: &case.source.name,
            event_id: case.event_id,
            gateway_order_id: event.gateway_order_id.as_deref(),
            bank_utr: event.bank_reference.as_deref(),
            created_at_us: self.now.0,
        };
        let hash = line.hash();
        writes.lines.push(transactions::row(&line, &hash));
        order.status = to.to;
        order.paid_minor += to.amount_minor;
        order.ledger_seq += 1;
        order.ledger_head = Some(hash);
        if let Some(action) = to.action {
            order.outbox_seq += 1;
            writes.queued.push(outbox::row(
                self.tenant,
                case.receipt,
                action,
                Some((Uuid::from_bytes(order.order_id), order.outbox_seq)),
                self.now,
            ));
        }
        writes.orders.insert(order.order_id, order.clone());
    }

    fn write_receipt<'b>(
        &self,
        case: &'b Case<'b>,
        (outcome, reason): (Outcome, Option<Reason>),
        order_id: Option<Id>,
        writes: &mut Writes<'b>,
    ) {
        let key = (self.tenant, case.source.name.as_str(), case.identity);
        let verdict = Verdict { outcome, reason, order_id: order_id.map(Uuid::from_bytes), at: self.now };
        let delivery = match &case.origin {
            Origin::Delivered(delivery) => delivery,
            Origin::Parked(reason) => {
                let row = event_receipts::settlement(key, &verdict);
                writes.settlements.push(((case.receipt, reason), row));
                return;
            }
        };
        let event = case.event.ok();
        let row = event_receipts::row(key, case.receipt, case.event_id, event, delivery, &verdict);
        writes.receipts.push(((&case.source.name, case.identity), case.receipt, row));
        if let Some(body) = delivery.evidence {
            let payer = event.and_then(|event| event.payer.as_deref());
            let (order_id, at) = (verdict.order_id, verdict.at);
            writes.evidence.push(payloads::row(self.tenant, case.receipt, order_id, at, body, payer));
        }
    }

    /// The event's payment references, as keys.
    fn names(&self, case: &Case<'_>, event: &Event) -> Vec<Key> {
        event
            .references
            .iter()
            .map(|reference| {
                // A bank's reference is the same at every gateway.
                let (scope, gateway) = match reference.kind.as_str() {
                    BANK_REFERENCE_KIND => (*case.source.bank_scope.as_bytes(), ""),
                    _ => (*self.tenant.as_bytes(), case.source.gateway_name.as_str()),
                };
                Key {
                    scope,
                    gateway: gateway.to_owned(),
                    kind: reference.kind.clone(),
                    value: reference.value.clone(),
                }
            })
            .collect()
    }

    /// The keys that an event claims for its order; none where it is no payment.
    fn keys(&self, case: &Case<'_>, order: &Order) -> Vec<Key> {
        let Some(event) = case.event.ok().filter(|event| claims_references(event)) else {
            return Vec::new();
        };
        let mut keys = self.names(case, event);
        if let (Some(utr), Some(amount_minor)) = (&event.bank_reference, event.amount_minor) {
            keys.push(Key {
                scope: *case.source.bank_scope.as_bytes(),
                gateway: String::new(),
                kind: "idempotency_hash".to_owned(),
                value: idempotency_hash(&order.client_txn_id, utr, amount_minor),
            });
        }
        keys
    }

    /// Whether an exception of this payment is on record, where no held reference can tell.
    fn on_record(
        &self,
        case: &Case<'_>,
        event: &Event,
        order: Option<&Order>,
        taken: &[Taken],
        writes: &Writes<'_>,
    ) -> bool {
        let ask = matches!(case.found, Found::Contradiction(_))
            || order.is_some_and(|order| {
                taken.iter().any(|taken| taken.order_id != order.order_id)
                    || (!taken.is_empty() && money_differs(event, order).is_some())
            });
        let Some(kind) = event.kind.filter(|_| ask) else { return false };
        let order_id = case.found.order_id();
        // Of a booked payment more names may be known than the event has.
        let booked = order_id.filter(|order_id| {
            taken.contains(&Taken { order_id: *order_id, state: ReferenceState::Applied })
        });
        let own: BTreeSet<Key> = self.names(case, event).into_iter().collect();
        let is_raised = |name: &Key| writes.raised.contains(&(order_id, kind, name.clone()));
        if own.iter().any(is_raised) {
            return true;
        }
        let booked_now = booked.and_then(|order_id| writes.booked.get(&order_id)).into_iter().flatten();
        let names: BTreeSet<&Key> = own.iter().chain(booked_now).collect();
        names.iter().any(|name| is_raised(name))
            || booked.is_some_and(|order_id| writes.has_raised_booked(order_id, kind))
            || exceptions::on_record(self.tenant, order_id.map(Uuid::from_bytes), kind, names.into_iter())
            || booked.is_some_and(|order_id| {
                let order_id = Uuid::from_bytes(order_id);
                exceptions::on_record_of_booked(self.tenant, order_id, kind, case.source.bank_scope)
            })
    }
}

impl Writes<'_> {
    /// Whether this call raises an exception of the payment that is booked on an order.
    fn has_raised_booked(&self, order_id: Id, kind: Kind) -> bool {
        let booked = Taken { order_id, state: ReferenceState::Applied };
        let of_order = |raised: &&(Option<Id>, Kind, Key)| (raised.0, raised.1) == (Some(order_id), kind);
        self.raised
            .range((Some(order_id), kind, Key::FIRST)..)
            .take_while(of_order)
            .filter_map(|(_, _, name)| self.references.get(name))
            .any(|(claim, _)| claim.taken == booked)
    }

    /// A new reference joins a payment in this state. A held one of the same order moves on: it is
    /// booked, or contested.
    fn join(&mut self, key: Key, order_id: Id, state: ReferenceState, receipt: i64) {
        let taken = Taken { order_id, state };
        let Some((known, change)) = self.references.get_mut(&key) else {
            self.note_booked(&key, taken);
            self.references.insert(key, (Claim { taken, receipt }, Change::New));
            return;
        };
        if known.taken == (Taken { order_id, state: ReferenceState::Held }) && state != ReferenceState::Held {
            // It was brought by the event whose exception holds it, until an event books it.
            let receipt = if state == ReferenceState::Applied { receipt } else { known.receipt };
            *known = Claim { taken, receipt };
            if *change == Change::None {
                *change = Change::Moved;
            }
            self.note_booked(&key, taken);
        }
    }

    fn note_booked(&mut self, key: &Key, taken: Taken) {
        if taken.state == ReferenceState::Applied {
            self.booked.entry(taken.order_id).or_default().push(key.clone());
        }
    }
}

fn located(found: Found, order: Option<&Order>) -> Located<'_> {
    match (found, order) {
        (Found::Known(_), Some(order)) => Located::Known(order),
        (Found::Contradiction(_), order) => Located::Contradiction(order),
        _ => Located::Unknown,
    }
}

fn exception_detail(decision: &Decision) -> &'static str {
    match decision {
        Decision::Raise(Reason::AmountMismatch) => "The amount is not the order's.",
        Decision::Raise(Reason::CurrencyMismatch) => {
            "The currency is missing, ill-formed or not the order's."
        }
        Decision::Raise(Reason::ReferenceMismatch) => {
            "Merchant, order reference and gateway order id do not name one order."
        }
        Decision::Raise(Reason::SecondPayment) => "The order is paid by another payment.",
        Decision::Raise(Reason::ReferenceReused) => "A reference of the payment belongs to another order.",
        _ => "The tenant's rules have no such move from the order's status.",
    }
}
