//! The sequential reference model: what each call answers and leaves, one call after another.
//!
//! Written from the documentation alone (docs/OUTCOMES.md, docs/ARCHITECTURE.md), apart from the extension's own
//! rules, with other data structures: payments are sets of names here, where the extension has rows of references.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Merchant and the merchant's reference.
pub type OrderKey = (String, String);
/// Kind (`payment` or `bank`) and value.
pub type Name = (&'static str, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    Pending,
    Processing,
    Failed,
    Expired,
    Completed,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Status::Pending => "PENDING",
            Status::Processing => "PROCESSING",
            Status::Failed => "FAILED",
            Status::Expired => "EXPIRED",
            Status::Completed => "COMPLETED",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Attempted,
    Authorized,
    Succeeded,
    Failed,
    Expired,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Attempted => "payment_attempted",
            Kind::Authorized => "payment_authorized",
            Kind::Succeeded => "payment_succeeded",
            Kind::Failed => "payment_failed",
            Kind::Expired => "payment_expired",
        }
    }
}

/// An allowed move of an order.
pub type Rule = (Kind, Status, Status);

/// The shipped moves.
pub fn shipped_rules() -> Vec<Rule> {
    use Status::*;
    let edges =
        |kind, from: &[Status], to| from.iter().map(move |&from| (kind, from, to)).collect::<Vec<_>>();
    [
        edges(Kind::Attempted, &[Pending], Processing),
        edges(Kind::Authorized, &[Pending], Processing),
        edges(Kind::Failed, &[Pending, Processing], Failed),
        edges(Kind::Expired, &[Pending, Processing, Failed], Expired),
        edges(Kind::Succeeded, &[Pending, Processing, Failed, Expired], Completed),
    ]
    .concat()
}

// --- what comes in ----------------------------------------------------------------------------------------------

/// What an event says about an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub kind: Kind,
    pub reference: Option<String>,
    pub gateway_order: Option<String>,
    pub merchant: Option<String>,
    pub amount_minor: Option<i64>,
    /// As it counts: upper case, None where it is missing or no code.
    pub currency: Option<String>,
    pub names: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    Unreadable,
    /// Authentic, and for no order: with this reason.
    Aside(&'static str),
    About(Claim),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The signed id; of an unreadable body `sha256:` and the digest.
    pub identity: String,
    pub digest: String,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewOrder {
    pub key: OrderKey,
    pub amount_minor: i64,
    pub currency: &'static str,
    pub gateway_order: Option<String>,
}

// --- what goes out ----------------------------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: String,
    pub reason: Option<String>,
    pub order: Option<OrderKey>,
    pub status: Option<String>,
    /// The answer names a ledger line; the event's own.
    pub booked: bool,
    /// The answer names an exception; the event's own.
    pub exception: bool,
    pub first_outcome: Option<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.outcome)?;
        self.reason.iter().try_for_each(|reason| write!(f, " {reason}"))?;
        self.order.iter().try_for_each(|(merchant, reference)| write!(f, " {merchant}/{reference}"))?;
        self.status.iter().try_for_each(|status| write!(f, " {status}"))?;
        write!(
            f,
            "{}{}",
            if self.booked { " booked" } else { "" },
            if self.exception { " raised" } else { "" }
        )?;
        self.first_outcome
            .iter()
            .filter(|first| **first != self.outcome)
            .try_for_each(|first| write!(f, " first {first}"))
    }
}

// --- the world --------------------------------------------------------------------------------------------------

pub type Verdict = (&'static str, Option<&'static str>);
const APPLIED: Verdict = ("applied", None);
const PARKED: Verdict = ("parked", Some("order_not_found"));
const SAME_PAYMENT: Verdict = ("recorded", Some("same_payment"));

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Order {
    pub amount_minor: i64,
    pub currency: &'static str,
    pub gateway_order: Option<String>,
    pub status: Status,
    /// The identities of the events in its ledger, each with the money that it moved.
    pub ledger: Vec<(String, i64)>,
}

impl Order {
    pub fn paid_minor(&self) -> i64 {
        self.ledger.iter().map(|line| line.1).sum()
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub event: Arc<Event>,
    pub first: Verdict,
    pub now: Verdict,
    pub order: Option<OrderKey>,
}

/// Whether an exception still asks for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    Open,
    /// Its payment is booked, as events tell together that do not name it themselves: it may be left open.
    Closable,
    Closed,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Exception {
    pub identity: String,
    pub kind: &'static str,
    pub order: Option<OrderKey>,
    pub standing: Standing,
    /// The names that its event gave to the payment.
    names: Vec<Name>,
    /// What its event said happened.
    claimed: Option<Kind>,
    payment: Option<usize>,
    /// Its event says another amount or currency than the order, whatever else is wrong with it.
    disagrees: bool,
}

/// A payment is known by its names. Each name belongs to one payment, and each payment to one order.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payment {
    pub order: OrderKey,
    pub booked: bool,
    /// It goes by a name of another order's payment, so it never pays this one.
    stray: bool,
}

/// What does not change while a history runs.
pub struct Setting {
    pub rules: Vec<Rule>,
    pub source_merchant: Option<String>,
    /// The receipt numbers as they came to be given: waiting events are settled in their order.
    pub numbers: BTreeMap<String, i64>,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct World {
    pub orders: BTreeMap<OrderKey, Order>,
    pub receipts: BTreeMap<String, Receipt>,
    pub exceptions: Vec<Exception>,
    pub payments: Vec<Payment>,
    pub names: BTreeMap<Name, usize>,
    /// The names of bookings, and of events that were known for one.
    booked_names: BTreeSet<Name>,
}

/// Where merchant, reference and gateway order id lead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Nowhere,
    At(OrderKey),
    /// They do not name one order; the nearest that they name.
    Contradiction(Option<OrderKey>),
}

impl World {
    /// An authentic delivery. Its order was looked for in `looked`, where that was an earlier world than this one.
    pub fn deliver(&mut self, setting: &Setting, event: &Arc<Event>, looked: Option<&World>) -> Answer {
        let Some(receipt) = self.receipts.get(&event.identity) else {
            let (verdict, order) = self.judge(setting, event, looked);
            let receipt = Receipt { event: event.clone(), first: verdict, now: verdict, order };
            self.receipts.insert(event.identity.clone(), receipt);
            return self.answer(&event.identity, verdict);
        };
        if receipt.event.digest != event.digest {
            return Answer {
                booked: false,
                exception: false,
                ..self.answer(&event.identity, ("digest_conflict", None))
            };
        }
        if receipt.now == PARKED && self.retry(setting, &event.identity) {
            return self.answer(&event.identity, self.receipts[&event.identity].now);
        }
        let first_reason = self.receipts[&event.identity].first.1;
        self.answer(&event.identity, ("duplicate", first_reason))
    }

    fn answer(&self, identity: &str, (outcome, reason): Verdict) -> Answer {
        let receipt = &self.receipts[identity];
        Answer {
            outcome: outcome.into(),
            reason: reason.map(Into::into),
            order: receipt.order.clone(),
            status: receipt.order.as_ref().map(|key| self.orders[key].status.to_string()),
            booked: receipt.now.0 == "applied",
            exception: receipt.now.0 == "exception",
            first_outcome: Some(receipt.first.0.into()),
        }
    }

    /// `create_order`: the outcome and the order's status afterwards. Facts that were left out may be filled in.
    pub fn create_order(&mut self, setting: &Setting, new: &NewOrder) -> Answer {
        let owner = new.gateway_order.as_ref().and_then(|id| self.owner(id));
        let taken = owner.is_some_and(|owner| *owner != new.key);
        let outcome = match self.orders.get_mut(&new.key) {
            _ if taken => "conflict",
            None => {
                let order = Order {
                    amount_minor: new.amount_minor,
                    currency: new.currency,
                    gateway_order: new.gateway_order.clone(),
                    status: Status::Pending,
                    ledger: Vec::new(),
                };
                self.orders.insert(new.key.clone(), order);
                "created"
            }
            Some(order) => {
                let other = new.gateway_order.is_some()
                    && order.gateway_order.is_some()
                    && new.gateway_order != order.gateway_order;
                if (order.amount_minor, order.currency) != (new.amount_minor, new.currency) || other {
                    "conflict"
                } else {
                    order.gateway_order = order.gateway_order.take().or_else(|| new.gateway_order.clone());
                    "existing"
                }
            }
        };
        if outcome != "conflict" {
            let mut waiting: Vec<String> =
                self.receipts.iter().filter(|(_, r)| r.now == PARKED).map(|(id, _)| id.clone()).collect();
            waiting.sort_by_key(|id| setting.numbers.get(id));
            for identity in waiting {
                self.retry(setting, &identity);
            }
        }
        Answer {
            outcome: outcome.into(),
            reason: None,
            order: self.orders.contains_key(&new.key).then(|| new.key.clone()),
            status: self.orders.get(&new.key).map(|order| order.status.to_string()),
            booked: false,
            exception: false,
            first_outcome: None,
        }
    }

    /// Tries a parked event again; false while its cause is missing.
    fn retry(&mut self, setting: &Setting, identity: &str) -> bool {
        let event = self.receipts[identity].event.clone();
        let (verdict, order) = self.judge(setting, &event, None);
        let receipt = self.receipts.get_mut(identity).expect("it was there");
        (receipt.now, receipt.order) = (verdict, order);
        verdict != PARKED
    }

    fn judge(
        &mut self,
        setting: &Setting,
        event: &Event,
        looked: Option<&World>,
    ) -> (Verdict, Option<OrderKey>) {
        let claim = match &event.content {
            Content::Unreadable => return (self.raise(event, None, "payload_unreadable", None, None), None),
            Content::Aside(reason) => return (("recorded", Some(reason)), None),
            Content::About(claim) => claim,
        };
        match looked.unwrap_or(self).locate(setting, claim) {
            // Who finds none meets `create_order` and looks again: no earlier look parks.
            Place::Nowhere if looked.is_some() => self.judge(setting, event, None),
            Place::Nowhere => (PARKED, None),
            Place::At(at) => (self.judge_at(setting, event, claim, &at, false), Some(at)),
            Place::Contradiction(Some(at)) => (self.judge_at(setting, event, claim, &at, true), Some(at)),
            Place::Contradiction(None) => {
                (self.raise_once(event, claim, "reference_mismatch", None, None), None)
            }
        }
    }

    fn judge_at(
        &mut self,
        setting: &Setting,
        event: &Event,
        claim: &Claim,
        at: &OrderKey,
        contradiction: bool,
    ) -> Verdict {
        match claim.kind {
            Kind::Succeeded => self.judge_payment(setting, event, claim, at, contradiction),
            _ if contradiction => self.raise_once(event, claim, "reference_mismatch", Some(at), None),
            kind => {
                let status = self.orders[at].status;
                if self.advance(setting, event, kind, at, 0) {
                    APPLIED
                } else if setting.rules.iter().any(|rule| (rule.0, rule.2) == (kind, status)) {
                    ("recorded", Some("already_in_state"))
                } else {
                    ("recorded", Some("stale"))
                }
            }
        }
    }

    fn judge_payment(
        &mut self,
        setting: &Setting,
        event: &Event,
        claim: &Claim,
        at: &OrderKey,
        contradiction: bool,
    ) -> Verdict {
        let known: BTreeSet<usize> =
            claim.names.iter().filter_map(|name| self.names.get(name).copied()).collect();
        let (here, elsewhere): (Vec<usize>, Vec<usize>) =
            known.iter().partition(|&&p| self.payments[p].order == *at);
        let raised = self
            .exceptions
            .iter()
            .filter(|e| e.order.as_ref() == Some(at) && e.claimed == Some(Kind::Succeeded));
        let raised = raised
            .filter(|e| e.names.iter().any(|name| claim.names.contains(name)))
            .filter_map(|e| e.payment);
        let here: BTreeSet<usize> = here.into_iter().chain(raised).collect();
        let here = self.merge(&Vec::from_iter(here));
        let booked = here.is_some_and(|p| self.payments[p].booked);
        let order = &self.orders[at];
        let disagrees = claim.currency.as_deref() != Some(order.currency)
            || claim.amount_minor != Some(order.amount_minor);
        // Named together with another order's payment: what is booked is not all that there is to it.
        let stray = !elsewhere.is_empty() || here.is_some_and(|p| self.payments[p].stray);
        let complaint = if contradiction {
            (!booked || disagrees || stray).then_some("reference_mismatch")
        } else if stray {
            Some("reference_reused")
        } else if order.paid_minor() > 0 && !booked {
            Some("second_payment")
        } else if claim.currency.as_deref() != Some(order.currency) {
            Some("currency_mismatch")
        } else if disagrees {
            Some("amount_mismatch")
        } else if booked {
            None
        } else if self.advance(setting, event, Kind::Succeeded, at, self.orders[at].amount_minor) {
            let payment = self.name(&claim.names, here, at);
            if let Some(payment) = payment {
                self.payments[payment].booked = true;
                self.booked_names.extend(claim.names.iter().cloned());
                self.supersede(payment, &claim.names);
            }
            return APPLIED;
        } else {
            Some("transition_not_allowed")
        };
        let payment = self.name(&claim.names, here, at);
        if let (Some(payment), true) = (payment, stray) {
            self.payments[payment].stray = !booked;
        }
        let verdict = match complaint {
            Some(kind) => self.raise_once(event, claim, kind, Some(at), payment),
            None => SAME_PAYMENT,
        };
        if verdict == SAME_PAYMENT {
            if let Some(payment) = payment.filter(|&p| self.payments[p].booked) {
                self.supersede(payment, &claim.names);
            }
        } else {
            self.exceptions.last_mut().expect("just raised").disagrees = disagrees;
        }
        verdict
    }

    /// Makes the move that the rules have for this kind of event, if there is one.
    fn advance(&mut self, setting: &Setting, event: &Event, kind: Kind, at: &OrderKey, money: i64) -> bool {
        let order = self.orders.get_mut(at).expect("it was found");
        let edge = setting.rules.iter().find(|rule| (rule.0, rule.1) == (kind, order.status));
        if let Some(&(_, _, to)) = edge {
            order.status = to;
            order.ledger.push((event.identity.clone(), money));
        }
        edge.is_some()
    }

    /// One exception per payment: further events of it, by whichever of its names, are `same_payment`. Only an event of
    /// the same kind counts: what is on record of an attempt must not hide money.
    fn raise_once(
        &mut self,
        event: &Event,
        claim: &Claim,
        kind: &'static str,
        at: Option<&OrderKey>,
        payment: Option<usize>,
    ) -> Verdict {
        if self.on_record(claim, at, payment) {
            return SAME_PAYMENT;
        }
        self.raise(event, Some(claim), kind, at, payment)
    }

    fn on_record(&self, claim: &Claim, at: Option<&OrderKey>, payment: Option<usize>) -> bool {
        let of_payment = |e: &Exception| {
            let its_name = |name| {
                claim.names.contains(name) || payment.is_some_and(|p| self.names.get(name) == Some(&p))
            };
            payment.is_some() && e.payment == payment || e.names.iter().any(its_name)
        };
        self.exceptions
            .iter()
            .any(|e| e.order.as_ref() == at && e.claimed == Some(claim.kind) && of_payment(e))
    }

    fn raise(
        &mut self,
        event: &Event,
        claim: Option<&Claim>,
        kind: &'static str,
        at: Option<&OrderKey>,
        payment: Option<usize>,
    ) -> Verdict {
        self.exceptions.push(Exception {
            identity: event.identity.clone(),
            kind,
            order: at.cloned(),
            standing: Standing::Open,
            names: claim.map_or(Vec::new(), |claim| claim.names.clone()),
            claimed: claim.map(|claim| claim.kind),
            payment,
            disagrees: false,
        });
        ("exception", Some(kind))
    }

    /// The payment is booked after all: the event settles what is open under its names, unless two amounts contradict
    /// each other or the payment goes by another order's name.
    fn supersede(&mut self, payment: usize, names: &[Name]) {
        let known = names.iter().any(|name| self.booked_names.contains(name));
        if known {
            self.booked_names.extend(names.iter().cloned());
        }
        let settles = |e: &&mut Exception| {
            e.payment == Some(payment)
                && !e.disagrees
                && e.kind != "reference_reused"
                && e.standing != Standing::Closed
        };
        for exception in self.exceptions.iter_mut().filter(settles) {
            let named = exception.names.iter().any(|name| names.contains(name));
            exception.standing = if known && named { Standing::Closed } else { Standing::Closable };
        }
    }

    /// Payments of one order that share an event are one.
    fn merge(&mut self, payments: &[usize]) -> Option<usize> {
        let (&first, others) = payments.split_first()?;
        for &other in others {
            let merged = self.payments[other].clone();
            let payment = &mut self.payments[first];
            payment.booked |= merged.booked;
            payment.stray |= merged.stray;
            self.names.values_mut().filter(|p| **p == other).for_each(|p| *p = first);
            self.exceptions
                .iter_mut()
                .filter(|e| e.payment == Some(other))
                .for_each(|e| e.payment = Some(first));
        }
        Some(first)
    }

    /// Gives the names that nobody has yet to the payment: a known one, or a new one of the order. None without names.
    fn name(&mut self, names: &[Name], payment: Option<usize>, at: &OrderKey) -> Option<usize> {
        let free: Vec<&Name> = names.iter().filter(|name| !self.names.contains_key(*name)).collect();
        if names.is_empty() {
            return None;
        }
        let payment = payment.unwrap_or_else(|| {
            let new = Payment { order: at.clone(), booked: false, stray: false };
            self.payments.push(new);
            self.payments.len() - 1
        });
        for name in free {
            self.names.insert(name.clone(), payment);
        }
        Some(payment)
    }

    fn owner(&self, gateway_order: &str) -> Option<&OrderKey> {
        self.orders
            .iter()
            .find(|(_, o)| o.gateway_order.as_deref() == Some(gateway_order))
            .map(|(key, _)| key)
    }

    pub fn locate(&self, setting: &Setting, claim: &Claim) -> Place {
        let merchant = setting.source_merchant.as_ref().or(claim.merchant.as_ref());
        let by_reference: Vec<&OrderKey> = self
            .orders
            .keys()
            .filter(|key| Some(&key.1) == claim.reference.as_ref() && merchant.is_none_or(|m| *m == key.0))
            .collect();
        let by_gateway = claim.gateway_order.as_ref().and_then(|id| self.owner(id));
        let found = match (by_reference[..].as_ref(), by_gateway) {
            ([], None) => return Place::Nowhere,
            ([], Some(key)) => key,
            ([key], _) => *key,
            _ => return Place::Contradiction(None),
        };
        let agree = claim.reference.as_ref().is_none_or(|reference| *reference == found.1)
            && merchant.is_none_or(|merchant| *merchant == found.0)
            && claim.merchant.as_ref().is_none_or(|merchant| *merchant == found.0)
            && by_gateway.is_none_or(|key| key == found)
            && (claim.gateway_order.is_none()
                || self.orders[found].gateway_order.is_none()
                || self.orders[found].gateway_order == claim.gateway_order);
        if agree {
            Place::At(found.clone())
        } else {
            Place::Contradiction(Some(found.clone()))
        }
    }
}
