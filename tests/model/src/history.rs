//! Random histories: who calls what, in which transaction, in which session. A seed means one history.

use std::fmt;
use std::sync::Arc;

use crate::model::{shipped_rules, Event, Kind, NewOrder, Rule, Status};
use crate::random::Random;
use crate::reading::{Blunder, Said};

pub const SESSIONS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seal {
    True,
    /// Well-formed, of other bytes.
    Forged,
    Malformed,
}

#[derive(Clone, Debug)]
pub struct Delivery {
    pub body: Arc<Vec<u8>>,
    pub event: Arc<Event>,
    /// The id in the body.
    pub signed_id: String,
    /// The argument `event_id`.
    pub claimed_id: Option<String>,
    pub seal: Seal,
}

impl Delivery {
    /// Why it is rejected, judged in the documented order; an unreadable body has no id to contradict.
    pub fn rejection(&self) -> Option<&'static str> {
        let claimed = self.claimed_id.as_deref();
        match self.seal {
            _ if claimed.is_some_and(|id| id.is_empty() || id.contains(' ')) => Some("event_id_malformed"),
            Seal::Malformed => Some("signature_malformed"),
            Seal::Forged => Some("signature_mismatch"),
            Seal::True if claimed.is_some_and(|id| id != self.signed_id) => Some("event_id_mismatch"),
            Seal::True => None,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Call {
    Deliver(Delivery),
    CreateOrder(NewOrder),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Call::Deliver(d) => {
                let id = d.claimed_id.as_ref().map_or("NULL".into(), |id| format!("'{id}'"));
                write!(f, "ingest(:t, {id}, '{}', ", String::from_utf8_lossy(&d.body))?;
                write!(f, "{})", if d.seal == Seal::True { "signed".into() } else { format!("{:?}", d.seal) })
            }
            Call::CreateOrder(o) => {
                let gateway_order = o.gateway_order.as_ref().map_or("NULL".into(), |id| format!("'{id}'"));
                write!(f, "create_order(:t, '{}', '{}', ", o.key.0, o.key.1)?;
                write!(f, "{} minor, '{}', gateway_order_id => {gateway_order})", o.amount_minor, o.currency)
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Step {
    pub call: Call,
    pub pause_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Autocommit,
    Block,
    /// One call of `ingest_batch`.
    Batch,
}

#[derive(Clone, Debug)]
pub struct Transaction {
    pub form: Form,
    pub level: &'static str,
    pub rollback: bool,
    pub steps: Vec<Step>,
    pub pause_us: u64,
}

#[derive(Clone, Debug)]
pub struct History {
    pub seed: u64,
    pub source_merchant: Option<String>,
    /// The tenant's own rules, where it has some.
    pub own_rules: Option<Vec<Rule>>,
    pub workers: bool,
    pub before: Vec<NewOrder>,
    pub sessions: Vec<Vec<Transaction>>,
}

impl History {
    pub fn rules(&self) -> Vec<Rule> {
        self.own_rules.clone().unwrap_or_else(shipped_rules)
    }

    /// The same without one step; None where there are not so many.
    pub fn without(&self, step: usize) -> Option<History> {
        let mut smaller = self.clone();
        let mut at = step;
        for transaction in smaller.sessions.iter_mut().flatten() {
            if at < transaction.steps.len() {
                transaction.steps.remove(at);
                smaller.sessions.iter_mut().for_each(|session| session.retain(|t| !t.steps.is_empty()));
                return Some(smaller);
            }
            at -= transaction.steps.len();
        }
        None
    }

    pub fn steps(&self) -> usize {
        self.sessions.iter().flatten().map(|transaction| transaction.steps.len()).sum()
    }
}

/// Late money is not accepted here.
fn strict_rules() -> Vec<Rule> {
    use Status::*;
    vec![
        (Kind::Attempted, Pending, Processing),
        (Kind::Expired, Pending, Expired),
        (Kind::Succeeded, Pending, Completed),
        (Kind::Succeeded, Processing, Completed),
    ]
}

struct Plan {
    order: NewOrder,
    gateway_order: Option<String>,
}

pub fn random(seed: u64) -> History {
    let mut random = Random::new(seed);
    let r = &mut random;
    let two_merchants = r.chance(20);
    let source_merchant = (!two_merchants && r.chance(50)).then(|| "m1".to_string());
    let own_rules = r.chance(8).then(strict_rules);

    let mut plans = Vec::new();
    for i in 0..2 + r.below(3) {
        let merchant = if two_merchants && r.chance(50) { "m2" } else { "m1" };
        let reference = if two_merchants { format!("O{}", r.below(3)) } else { format!("O{i}") };
        let key = (merchant.to_string(), reference);
        if plans.iter().all(|plan: &Plan| plan.order.key != key) {
            let currency = r.weighted(&[(70, "USD"), (15, "JPY"), (15, "KWD")]);
            let order = NewOrder { key, amount_minor: 1000 + 7 * i as i64, currency, gateway_order: None };
            plans.push(Plan { order, gateway_order: r.chance(50).then(|| format!("g{i}")) });
        }
    }

    // When each order becomes known, and when its gateway order id does.
    let (mut before, mut calls) = (Vec::new(), Vec::new());
    for plan in &plans {
        let told_at_once = r.chance(50);
        let first = NewOrder {
            gateway_order: plan.gateway_order.clone().filter(|_| told_at_once),
            ..plan.order.clone()
        };
        match r.weighted(&[(45, "before"), (45, "meanwhile"), (10, "never")]) {
            "before" => before.push(first),
            "meanwhile" => calls.extend((0..1 + r.below(2)).map(|_| Call::CreateOrder(first.clone()))),
            _ => continue,
        }
        if plan.gateway_order.is_some() && !told_at_once && r.chance(70) {
            let fill = NewOrder { gateway_order: plan.gateway_order.clone(), ..plan.order.clone() };
            calls.push(Call::CreateOrder(fill));
        }
        if r.chance(5) {
            let other = NewOrder { amount_minor: 1, ..plan.order.clone() };
            calls.push(Call::CreateOrder(other));
        }
    }

    let shared = if r.chance(50) { 0 } else { 30 }; // percent of the names that are used on several orders
    for event in 0..6 + r.below(9) {
        let said = say(r, &plans, two_merchants, shared, event);
        let copies = 1 + r.weighted(&[(45, 0), (30, 1), (15, 2), (10, 5)]);
        calls.extend((0..copies).map(|_| deliver(r, &said)));
        if r.chance(10) {
            // A digest conflict: the same id, other bytes.
            let other = Said { id: said.id.clone(), ..say(r, &plans, two_merchants, shared, event) };
            calls.push(deliver(r, &other));
        }
    }
    r.shuffle(&mut calls);
    calls.truncate(90); // with their redelivery at most 128, as many as the search has bits for
    let sessions = deal(r, calls);
    History { seed, source_merchant, own_rules, workers: r.chance(50), before, sessions }
}

fn say(r: &mut Random, plans: &[Plan], two_merchants: bool, shared: usize, event: usize) -> Said {
    let at = r.below(plans.len());
    let plan = &plans[at];
    let word = r.weighted(&[
        (42, "paid"),
        (8, "charge_succeeded"),
        (6, "attempted"),
        (6, "authorized"),
        (12, "failed"),
        (8, "expired"),
        (4, "ping"),
        (3, "refund"),
        (3, "dispute_opened"),
        (3, "invoice_sent"),
    ]);
    let (mut reference, mut gateway_order) = (Some(plan.order.key.1.clone()), None);
    match r.weighted(&[
        (58, "reference"),
        (15, "gateway order"),
        (14, "both"),
        (10, "other gateway order"),
        (3, "nothing"),
    ]) {
        "gateway order" if plan.gateway_order.is_some() => {
            (reference, gateway_order) = (None, plan.gateway_order.clone())
        }
        "both" => gateway_order.clone_from(&plan.gateway_order),
        "other gateway order" => gateway_order = Some(format!("g{}", r.below(6))),
        "nothing" => reference = None,
        _ => {}
    }
    let merchant = r
        .weighted(&[(if two_merchants { 50 } else { 20 }, true), (60, false)])
        .then(|| plan.order.key.0.clone());
    let merchant = if r.chance(2) { Some("m9".into()) } else { merchant };
    // A payment of this order, or one that several orders' events name.
    let mut name = |prefix: &str, percent| {
        let owner = if r.chance(shared) { "x".to_string() } else { at.to_string() };
        r.chance(percent).then(|| format!("{prefix}{owner}{}", r.below(2)))
    };
    let (payment, utr) = (name("p", 80), name("u", 30));
    Said {
        id: format!("e{event}"),
        word,
        reference,
        gateway_order,
        merchant,
        amount: Some(if r.chance(80) { plan.order.amount_minor } else { *r.pick(&[900, 901, 1_000_000]) }),
        currency: match r.below(100) {
            0..=1 => None,
            2..=3 => Some("dollars"),
            4..=7 => Some("eur"),
            8..=20 => Some(if plan.order.currency == "USD" { "usd" } else { plan.order.currency }),
            _ => Some(plan.order.currency),
        },
        payment,
        utr,
        livemode: r.chance(10).then(|| r.chance(50)),
        blunder: r.chance(5).then(|| *r.pick(&[Blunder::Truncated, Blunder::KeyTwice, Blunder::Fraction])),
    }
}

fn deliver(r: &mut Random, said: &Said) -> Call {
    let seal = r.weighted(&[(93, Seal::True), (4, Seal::Forged), (3, Seal::Malformed)]);
    let claimed_id = match r.below(100) {
        0..=1 if said.blunder.is_none() => Some(format!("{}-other", said.id)),
        2 => Some("not an id".into()),
        3..=50 => Some(said.id.clone()),
        _ => None,
    };
    Call::Deliver(Delivery {
        body: Arc::new(said.body()),
        event: said.event(),
        signed_id: said.id.clone(),
        claimed_id,
        seal,
    })
}

/// Deals the calls out to the sessions, in transactions of one to three.
fn deal(r: &mut Random, mut calls: Vec<Call>) -> Vec<Vec<Transaction>> {
    let mut sessions = vec![Vec::new(); SESSIONS];
    let hasty = r.chance(40); // no pauses at all
    while !calls.is_empty() {
        let form = r.weighted(&[(50, Form::Autocommit), (35, Form::Block), (15, Form::Batch)]);
        let length = if form == Form::Autocommit { 1 } else { 1 + r.below(3) }.min(calls.len());
        let mut pause = |percent| if hasty || !r.chance(percent) { 0 } else { r.below(3000) as u64 };
        let steps: Vec<Step> = calls.drain(..length).map(|call| Step { call, pause_us: pause(30) }).collect();
        let pause_us = pause(40);
        let deliveries_only = steps.iter().all(|step| matches!(step.call, Call::Deliver(_)));
        let form = if form == Form::Batch && !deliveries_only { Form::Block } else { form };
        let level = r.weighted(&[(60, "READ COMMITTED"), (20, "REPEATABLE READ"), (20, "SERIALIZABLE")]);
        let rollback = form != Form::Autocommit && r.chance(15);
        let level = if form == Form::Autocommit { "READ COMMITTED" } else { level };
        sessions[r.below(SESSIONS)].push(Transaction { form, level, rollback, steps, pause_us });
    }
    sessions
}
