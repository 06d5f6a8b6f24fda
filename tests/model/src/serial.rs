//! Linearizability: is there a serial order of the committed calls, true to real time, in which the model gives every
//! answer and ends where the tables end?

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};

use uuid::Uuid;

use crate::history::{Call, History};
use crate::model::{Answer, Content, OrderKey, Setting, Standing, Verdict, World};
use crate::run::Done;
use crate::tables::Tables;

const BUDGET: usize = 20_000; // worlds looked at; an ordinary history needs about as many as it has calls

/// The committed calls that touch the model, at most as many as a u128 has bits.
struct Search<'a> {
    setting: Setting,
    calls: Vec<&'a Done>,
    told: Vec<Answer>,
    /// Per call: those that must come before it.
    before: Vec<u128>,
    /// Of each call, the calls that come before its first look.
    before_look: Vec<u128>,
    tables: Outcome,
    seen: HashSet<(u128, u64)>,
    /// Along this way, worlds in which other orders were known than afterwards, each with the calls that were past.
    earlier: Vec<(u128, World)>,
    /// The longest way so far, and where it stood.
    best: (u128, World),
    misfit: String,
}

/// The tables in the model's words.
struct Outcome {
    receipts: BTreeMap<String, (Words, Words, Option<OrderKey>)>,
    ledgers: BTreeMap<OrderKey, Vec<(String, i64)>>,
    orders: BTreeMap<OrderKey, (String, i64, Option<String>, i64)>,
    exceptions: BTreeMap<String, (String, Option<OrderKey>, Standing)>,
    references: BTreeSet<(String, String, OrderKey)>,
}

type Words = (String, Option<String>);

fn words(verdict: Verdict) -> Words {
    (verdict.0.into(), verdict.1.map(Into::into))
}

impl Outcome {
    fn of(tables: &Tables) -> Outcome {
        let key = |id: &Uuid| tables.orders[id].key.clone();
        let identity: BTreeMap<i64, String> =
            tables.receipts.iter().map(|r| (r.receipt, r.identity.clone())).collect();
        let known =
            |receipt: &i64| identity.get(receipt).cloned().unwrap_or_else(|| format!("receipt {receipt}"));
        Outcome {
            receipts: tables
                .receipts
                .iter()
                .map(|r| (r.identity.clone(), (r.first.clone(), r.now.clone(), r.order_id.as_ref().map(key))))
                .collect(),
            ledgers: tables
                .orders
                .values()
                .map(|o| {
                    (
                        o.key.clone(),
                        o.ledger.iter().map(|(receipt, money, _)| (known(receipt), *money)).collect(),
                    )
                })
                .collect(),
            orders: tables
                .orders
                .values()
                .map(|o| (o.key.clone(), (o.status.clone(), o.paid_minor, o.gateway_order.clone(), o.outbox)))
                .collect(),
            exceptions: tables
                .exceptions
                .iter()
                .map(|e| {
                    let standing = if e.open { Standing::Open } else { Standing::Closed };
                    (known(&e.exception_id), (e.kind.clone(), e.order_id.as_ref().map(key), standing))
                })
                .collect(),
            references: tables
                .references
                .iter()
                .map(|(kind, value, id)| (kind.clone(), value.clone(), key(id)))
                .collect(),
        }
    }

    fn of_world(world: &World) -> Outcome {
        Outcome {
            receipts: world
                .receipts
                .iter()
                .map(|(identity, r)| (identity.clone(), (words(r.first), words(r.now), r.order.clone())))
                .collect(),
            ledgers: world.orders.iter().map(|(key, o)| (key.clone(), o.ledger.clone())).collect(),
            orders: world
                .orders
                .iter()
                .map(|(key, o)| {
                    let paid = o.paid_minor();
                    // One row of work where the order was completed, and none else.
                    (key.clone(), (o.status.to_string(), paid, o.gateway_order.clone(), i64::from(paid > 0)))
                })
                .collect(),
            exceptions: world
                .exceptions
                .iter()
                .map(|e| (e.identity.clone(), (e.kind.into(), e.order.clone(), e.standing)))
                .collect(),
            references: world
                .names
                .iter()
                .map(|((kind, value), p)| ((*kind).into(), value.clone(), world.payments[*p].order.clone()))
                .collect(),
        }
    }

    /// Where the two differ, the model's side second.
    fn difference(&self, mut model: Outcome) -> Option<String> {
        for (event, (_, _, standing)) in &mut model.exceptions {
            if let (Standing::Closable, Some(told)) = (*standing, self.exceptions.get(event)) {
                *standing = told.2;
            }
        }
        fn entries<K: std::fmt::Debug, V: std::fmt::Debug>(map: &BTreeMap<K, V>) -> BTreeSet<String> {
            map.iter().map(|entry| format!("{entry:?}")).collect()
        }
        fn members<T: std::fmt::Debug>(set: &BTreeSet<T>) -> BTreeSet<String> {
            set.iter().map(|member| format!("{member:?}")).collect()
        }
        let sides = [
            ("receipts", entries(&self.receipts), entries(&model.receipts)),
            ("ledgers", entries(&self.ledgers), entries(&model.ledgers)),
            (
                "orders (status, paid, gateway order id, outbox rows)",
                entries(&self.orders),
                entries(&model.orders),
            ),
            ("exceptions", entries(&self.exceptions), entries(&model.exceptions)),
            ("references", members(&self.references), members(&model.references)),
        ];
        let found: Vec<String> = sides
            .iter()
            .filter(|(_, tables, model)| tables != model)
            .map(|(what, tables, model)| {
                let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
                    a.difference(b).cloned().collect::<Vec<_>>().join("; ")
                };
                format!("{what}: tables have [{}], model has [{}]", only(tables, model), only(model, tables))
            })
            .collect();
        (!found.is_empty()).then(|| found.join("\n    "))
    }

    /// Whether the way to this outcome may lead through this world: what is settled in it is settled so in the end.
    fn admits(&self, world: &World) -> bool {
        world
            .orders
            .iter()
            .all(|(key, o)| self.ledgers.get(key).is_some_and(|lines| lines.starts_with(&o.ledger)))
            && world.receipts.iter().all(|(identity, r)| {
                self.receipts.get(identity).is_some_and(|(first, now, order)| {
                    *first == words(r.first)
                        && (r.now.0 == "parked" || (now, order) == (&words(r.now), &r.order))
                })
            })
    }
}

/// What a call looks for before it has a lock: the names of orders.
fn lookup(world: &World) -> Vec<(&OrderKey, &Option<String>)> {
    world.orders.iter().map(|(key, order)| (key, &order.gateway_order)).collect()
}

/// What the call told, in the model's words.
pub fn answer(done: &Done, tables: &Tables) -> Answer {
    let told = &done.told;
    Answer {
        outcome: told.outcome.clone(),
        reason: told.reason.clone(),
        order: told.order_id.and_then(|id| tables.orders.get(&id)).map(|order| order.key.clone()),
        status: told.status.clone(),
        booked: told.transaction_id.is_some(),
        exception: told.exception_id.is_some(),
        first_outcome: told.first_outcome.clone(),
    }
}

/// Whether two calls of one transaction see each other's work, as far as the model can tell.
fn related(a: &Done, b: &Done) -> bool {
    fn strings(done: &Done) -> Vec<&str> {
        match &done.call {
            Call::CreateOrder(o) => {
                [Some(o.key.1.as_str()), o.gateway_order.as_deref()].into_iter().flatten().collect()
            }
            Call::Deliver(d) => match &d.event.content {
                Content::About(claim) => [claim.reference.as_deref(), claim.gateway_order.as_deref()]
                    .into_iter()
                    .flatten()
                    .chain(claim.names.iter().map(|name| name.1.as_str()))
                    .chain([d.event.identity.as_str()])
                    .collect(),
                _ => vec![&d.event.identity],
            },
        }
    }
    let same_event = |a: &Call, b: &Call| match (a, b) {
        (Call::Deliver(a), Call::Deliver(b)) => a.event.identity == b.event.identity,
        _ => false,
    };
    // What was read of an event without an order is about that event alone.
    let about_itself = |done: &Done| {
        done.told.order_id.is_none() && ["duplicate", "digest_conflict"].contains(&done.told.outcome.as_str())
    };
    same_event(&a.call, &b.call)
        || match (a.told.order_id, b.told.order_id) {
            (Some(of_a), Some(of_b)) => of_a == of_b,
            _ if about_itself(a) || about_itself(b) => false,
            _ => strings(a).iter().any(|s| strings(b).contains(s)),
        }
}

/// Finds the serial order; the world at its end, or what stands in the way.
pub fn serialize(history: &History, done: &[Done], tables: &Tables) -> Result<World, String> {
    let calls: Vec<&Done> = done
        .iter()
        .filter(|done| done.committed && !matches!(&done.call, Call::Deliver(d) if d.rejection().is_some()))
        .collect();
    assert!(calls.len() <= 128, "{} calls are too many for a u128", calls.len());
    let masks = |own: fn(&Done) -> bool| {
        let mask = |(i, call): (usize, &&Done)| {
            let earlier = |(j, other): (usize, &&Done)| {
                let real_time = other.until < call.from;
                let of_transaction = other.transaction == call.transaction && j < i && related(other, call);
                (real_time || of_transaction && own(other)).then_some(1u128 << j)
            };
            calls.iter().enumerate().filter_map(earlier).fold(0, |mask, bit| mask | bit)
        };
        calls.iter().enumerate().map(mask).collect::<Vec<u128>>()
    };
    let before = masks(|_| true);
    // An earlier delivery of the transaction changes no name of an order.
    let before_look = masks(|own| matches!(own.call, Call::CreateOrder(_)));
    let setting = Setting {
        rules: history.rules(),
        source_merchant: history.source_merchant.clone(),
        numbers: tables.receipts.iter().map(|r| (r.identity.clone(), r.receipt)).collect(),
    };
    let mut world = World::default();
    history.before.iter().for_each(|order| drop(world.create_order(&setting, order)));
    let mut search = Search {
        told: calls.iter().map(|done| answer(done, tables)).collect(),
        setting,
        calls,
        before,
        before_look,
        tables: Outcome::of(tables),
        seen: HashSet::new(),
        earlier: Vec::new(),
        best: (0, world.clone()),
        misfit: String::new(),
    };
    match search.go(world, 0) {
        Some(world) => Ok(world),
        None => Err(search.explain()),
    }
}

impl Search<'_> {
    fn go(&mut self, world: World, mut past: u128) -> Option<World> {
        // A call that changes nothing and fits may be taken at once: nobody's way gets longer by it.
        while let Some(reader) = self.next(past).find(|&i| self.only_reads(&world, i)) {
            past |= 1 << reader;
        }
        if past.count_ones() > self.best.0.count_ones() {
            self.best = (past, world.clone());
        }
        if past.count_ones() as usize == self.calls.len() {
            let Some(difference) = self.tables.difference(Outcome::of_world(&world)) else {
                return Some(world);
            };
            self.misfit = difference;
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (&world, &self.earlier).hash(&mut hasher);
        if self.seen.len() >= BUDGET || !self.seen.insert((past, hasher.finish())) {
            return None;
        }
        let mut next: Vec<usize> = self.next(past).collect();
        next.sort_by_key(|&i| self.calls[i].until);
        for i in next {
            for after in self.ways(&world, i) {
                let shown = lookup(&after) != lookup(&world);
                if shown {
                    self.earlier.push((past, world.clone()));
                }
                if let Some(end) = self.go(after, past | 1 << i) {
                    return Some(end);
                }
                if shown {
                    self.earlier.pop();
                }
            }
        }
        None
    }

    /// The worlds after the call in which its answer fits. Its order may have been looked for earlier, when all that
    /// the call comes after was past: the look comes before the wait for the order's lock, and only the locked row is
    /// fresh after it.
    fn ways(&self, world: &World, i: usize) -> Vec<World> {
        let had_past = |past: u128| self.before_look[i] & !past == 0;
        let looks = self.earlier.iter().filter(|(past, _)| had_past(*past)).map(|(_, world)| Some(world));
        let mut ways: Vec<World> = Vec::new();
        for looked in std::iter::once(None).chain(looks) {
            let (after, answer) = self.apply(world, i, looked);
            if answer == self.told[i] && self.tables.admits(&after) && !ways.contains(&after) {
                ways.push(after);
            }
        }
        ways
    }

    /// The calls that may come next.
    fn next(&self, past: u128) -> impl Iterator<Item = usize> + '_ {
        (0..self.calls.len()).filter(move |&i| past & 1 << i == 0 && self.before[i] & !past == 0)
    }

    fn apply(&self, world: &World, i: usize, looked: Option<&World>) -> (World, Answer) {
        let mut world = world.clone();
        let answer = match &self.calls[i].call {
            Call::Deliver(delivery) => world.deliver(&self.setting, &delivery.event, looked),
            Call::CreateOrder(order) => world.create_order(&self.setting, order),
        };
        (world, answer)
    }

    /// Whether the call's answer fits and nothing changes by it.
    fn only_reads(&self, world: &World, i: usize) -> bool {
        let (after, answer) = self.apply(world, i, None);
        answer == self.told[i] && after == *world
    }

    fn explain(&self) -> String {
        if !self.misfit.is_empty() {
            return format!("every answer fits, the tables do not:\n    {}", self.misfit);
        }
        let (past, world) = &self.best;
        let mut text =
            format!("no serial order gives these answers ({} worlds tried); stuck where", self.seen.len());
        for i in self.next(*past) {
            let (after, answer) = self.apply(world, i, None);
            text +=
                &format!("\n    {} told [{}], the model says [{answer}]", self.calls[i].call, self.told[i]);
            if answer == self.told[i] && !self.tables.admits(&after) {
                text += ", and the tables contradict it";
            }
        }
        text
    }
}
